"""The source of a merge: the rows of the query, computed once so that every step sees the same rows.

Audits of level `quarantine` reject rows before `deduplicate` chooses one row of each key. So `deduplicate` never keeps
a bad row in place of a good one. The good rows and the rejected rows are two parts of the same computed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from deltalite.commands.common.rejected_rows import RejectedRows
from deltalite.commands.common.self_reads import pinned_sources, self_reads
from deltalite.commands.flows.loads import Loads
from deltalite.commands.quarantine import Quarantine
from deltalite.requests import Audit, Deduplicate, Source
from deltalite.requests.quarantine import rejecting_audits
from deltalite.results import FlowRange
from deltalite.snapshot import Snapshot
from deltalite.spark.audits.rejecting import separate_rows
from deltalite.spark.columns.types import from_spark
from deltalite.spark.reader.deduplicating import deduplicate_rows
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

    @property
    def audits(self) -> tuple[Audit, ...]:
        """The audits, some of which may reject rows of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows:
    """The rows of a query that take part in the merge, and the rows that audits reject.

    - `is_computed`: whether `frame` reads computed rows only, and without a shuffle.
    - `rejected`: None without an audit of level `quarantine`.
    """

    frame: DataFrame
    is_computed: bool
    rejected: RejectedRows | None

    def compute(self) -> DataFrame:
        """Return the rows of `frame`, computed once."""
        return self.frame if self.is_computed else compute_once(self.frame)


def prepare_rows(
    spark: SparkSession, request: QueryRequest, rows: DataFrame, delete_when: str | None = None
) -> PreparedRows:
    """Return the rows of the query that take part in the merge: the good rows that `deduplicate` keeps.

    Compute the rows if audits can reject rows. The audits reject no row for which the SQL `delete_when` is true.

    Raises:
        AuditFailedError: an audit rejects more rows than its limit allows.
        InvalidRequestError: the condition of an audit is wrong or fails for a row, or `deduplicate` is wrong.
        SourceError: a row cannot be computed.
    """
    audits = rejecting_audits(request.audits)
    if not audits:
        return PreparedRows(frame=deduplicate_rows(rows, request.deduplicate), is_computed=False, rejected=None)
    separated = separate_rows(rows, audits, delete_when)
    rejected = RejectedRows.of_source(request.table, audits, separated)
    rejected.check_limits(spark)
    good = deduplicate_rows(separated.good, request.deduplicate)
    return PreparedRows(frame=good, is_computed=request.deduplicate is None, rejected=rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedSource:
    """The rows of the source, computed once, and the versions of the Delta tables that it reads, by source name.

    - `ranges`: the versions that were loaded from incremental sources.
    - `rejected`: the rows that audits of level `quarantine` reject, None without such audits. `rows` does not contain
      these rows.
    """

    rows: DataFrame
    versions: Mapping[str, int]
    ranges: Mapping[str, FlowRange]
    rejected: RejectedRows | None


class MergeSource:
    """Computes the source, and keeps the computed rows for the next attempt if that attempt would read the same rows.

    The next attempt computes the source again in three cases: the source is a self read, it loads another range of
    versions, or an executor with computed rows was lost. The quarantine then gets the rejected rows of the new
    computation.
    """

    def __init__(
        self,
        spark: SparkSession,
        request: QueryRequest,
        quarantine: Quarantine | None,
        *,
        delete_when: str | None = None,
    ) -> None:
        self._spark = spark
        self._request = request
        self._quarantine = quarantine
        self._delete_when = delete_when
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
            if self._quarantine is not None:
                self._quarantine.begin()
            sources = pinned_sources(request.sources, request.table, base.version)
            rows_of_query = query_rows(
                self._spark, sources, request.query, request.query_params, loads=loads.source_loads
            )
            with loads.replan_after_loss(), rows_of_query as query:
                from_spark(query.frame.schema)  # raises for duplicate column names
                rows = prepare_rows(self._spark, request, query.frame, self._delete_when)
                computed = ComputedSource(
                    rows=rows.compute(),
                    versions=query.source_versions,
                    ranges=loads.ranges,
                    rejected=rows.rejected,
                )
        self._computed = computed
        return computed
