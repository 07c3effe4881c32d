"""Functions for tests that run a merge, and that read the change feed of a version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.requests import MergeClause, MergeRequest, RunIdentity
from tests.support.tables import UNUSED_SOURCE, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult

Clauses = Sequence[dict[str, Any]]


def merge_into(
    spark: SparkSession,
    table: Path | str,
    query: str | None,
    on: str,
    *,
    matched: Clauses = (),
    inserts: Clauses = (),
    by_source: Clauses = (),
    run: str | None = None,
    **options: Any,
) -> OperationResult:
    """Merge the rows of `query` into a table.

    The clauses have the form of the operator's parameters. `inserts` are its `when_not_matched`, and `by_source` are
    its `when_not_matched_by_source`. `run` is the app id.
    """
    options.setdefault("sources", {"source": UNUSED_SOURCE})
    return merge(
        spark,
        MergeRequest(
            table=str(table),
            query=query,
            on=on,
            when_matched=tuple(MergeClause(**clause) for clause in matched),
            when_not_matched=tuple(MergeClause(**clause) for clause in inserts),
            when_not_matched_by_source=tuple(MergeClause(**clause) for clause in by_source),
            **({} if run is None else {"identity": RunIdentity(app_id=run)}),
            **options,
        ),
    )


def feed(table: Path | str, version: int) -> list[tuple[Any, ...]]:
    """The change feed of a version: (change type, values of the row) for each change."""
    batches = DeltaTable(str(table)).changes(from_version=version, to_version=version)
    changed_rows = (row for batch in batches for row in batch.to_pylist())
    return sorted_rows(
        (row.pop("_change_type"), *(value for name, value in row.items() if not name.startswith("_commit_")))
        for row in changed_rows
    )
