"""The interface between a write and sources from which each run loads only new rows or files.

`commands.flows` implements the interface for incremental sources, and `commands.copy` for files that are loaded once.
A plan belongs to one attempt, and is made on the snapshot on which the commit is based.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.protocol.actions import SetTransaction
    from deltalite.requests import Source, WriteRequest
    from deltalite.results import OperationResult
    from deltalite.snapshot import Snapshot
    from deltalite.spark.reader.sources import QueryRows
    from deltalite.txn.proposal import ReadSet


class LoadPlan(Protocol):
    """The plan of one attempt: what to load, and how the commit records it."""

    @property
    def loaded(self) -> object:
        """The files or versions that the plan loads. Attempts with equal values can share the written rows."""
        ...

    @property
    def parameters(self) -> Mapping[str, str]:
        """The operation parameters of the commit, in addition to those of the write. Complete after `record`."""
        ...

    @property
    def metrics(self) -> Mapping[str, int]:
        """The operation metrics of the commit, in addition to those of the write. Complete after `record`."""
        ...

    def result_if_nothing_new(self, request: WriteRequest, base: Snapshot | None) -> OperationResult | None:
        """Return the result of the run if there is nothing new to load, else None.

        `base` is the snapshot on which the plan is made, None without a table.
        """
        ...

    def rows(
        self, spark: SparkSession, sources: Mapping[str, Source], request: WriteRequest
    ) -> AbstractContextManager[QueryRows]:
        """Return the rows of the request's query, in a context in which they can be computed."""
        ...

    def record(self) -> tuple[SetTransaction, ...]:
        """Record what the plan loads, and return the transactions that the commit sets.

        The write calls this method right before the commit. Files of the record take no effect without the commit.
        """
        ...

    def extended_reads(self, reads: ReadSet) -> ReadSet:
        """Return the read set with the transactions that the plan depends on."""
        ...


LoadPlanner = Callable[["Snapshot | None"], LoadPlan]
"""Plans what an attempt loads. The argument is the snapshot on which the commit is based, None for a new table."""
