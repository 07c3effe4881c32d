"""The source of a merge: the rows of the query, computed once so that every step sees the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from deltalite.commands.common.self_reads import pinned_sources, self_reads
from deltalite.commands.flows.loads import Loads
from deltalite.requests import Deduplicate, Source
from deltalite.results import FlowRange
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.types import from_spark
from deltalite.spark.reader.sources import query_rows
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.runtime.errors import SPARK_ERRORS, is_loss_of_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class QueryRequest(Protocol):
    """A request with a query over sources, such as `MergeRequest`."""

    @property
    def table(self) -> str:
        """The address of the target."""

    @property
    def sources(self) -> Mapping[str, Source]:
        """The sources by the names of their views."""

    @property
    def query(self) -> str | None:
        """The query over the sources."""

    @property
    def query_params(self) -> Mapping[str, object]:
        """The values of the query's markers."""

    @property
    def deduplicate(self) -> Deduplicate | None:
        """The rule that keeps one row for each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedSource:
    """The rows of the source, computed once, and the versions of the Delta tables that it reads, by source name.

    `ranges` has the versions that were loaded from incremental sources.
    """

    rows: DataFrame
    versions: Mapping[str, int]
    ranges: Mapping[str, FlowRange]


class MergeSource:
    """Computes the source, and keeps the rows for the next attempt if it reads the same rows.

    A self read, and an incremental source with another offset, has other rows in the next attempt. Rows that an
    executor lost are computed again.
    """

    def __init__(self, spark: SparkSession, request: QueryRequest) -> None:
        self._spark = spark
        self._request = request
        self._computed: ComputedSource | None = None

    @contextmanager
    def computed(self, base: Snapshot, loads: Loads) -> Iterator[ComputedSource]:
        """Yield the computed source for an attempt on `base`. `loads` are those of incremental sources.

        If the attempt fails because an executor lost the rows, the next attempt computes them again.
        """
        try:
            yield self._compute(base, loads)
        except SPARK_ERRORS as error:
            if is_loss_of_rows(error):
                self._computed = None
            raise

    def _compute(self, base: Snapshot, loads: Loads) -> ComputedSource:
        request, computed = self._request, self._computed
        if computed is None or computed.ranges != loads.ranges or self_reads(request.sources, request.table):
            sources = pinned_sources(request.sources, request.table, base.version)
            with query_rows(
                self._spark,
                sources,
                request.query,
                request.query_params,
                deduplicate=request.deduplicate,
                loads=loads.source_loads,
            ) as query:
                from_spark(query.frame.schema)  # raises for duplicate column names
                rows = compute_once(query.frame)
            computed = ComputedSource(rows=rows, versions=query.source_versions, ranges=loads.ranges)
        self._computed = computed
        return computed
