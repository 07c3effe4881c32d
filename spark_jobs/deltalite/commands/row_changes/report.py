"""The history entries of delete, update and merge: delta-spark's parameters and metrics. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from deltalite.commands.common.run_identity import user_metadata
from deltalite.commands.common.written_files import live_row_count_by_statistics
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.requests import RowsRequest
from deltalite.txn.proposal import Operation


def row_operation(
    request: RowsRequest, name: str, parameters: Mapping[str, str], metrics: Mapping[str, int]
) -> Operation:
    """Return the history entry of a request. `name` is delta-spark's name of the operation."""
    return Operation(
        name=name,
        parameters=parameters,
        metrics=metrics,
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )


def predicate_parameter(conditions: Iterable[str | None]) -> str:
    """Return the conditions as a JSON list."""
    return json.dumps([condition for condition in conditions if condition is not None])


def file_metrics(written: WrittenChange | None) -> dict[str, int]:
    """Return the metrics of added and removed files, without files that only got another deletion vector."""
    if written is None:
        return dict.fromkeys(
            ("numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes", "numAddedChangeFiles"), 0
        )
    readded_paths = {add.path for add in written.vectors.adds}
    removed_files = [remove for remove in written.removes if remove.path not in readded_paths]
    return {
        "numAddedFiles": len(written.data_files.adds),
        "numRemovedFiles": len(removed_files),
        "numAddedBytes": written.data_files.size_bytes,
        "numRemovedBytes": sum(remove.size_bytes or 0 for remove in removed_files),
        "numAddedChangeFiles": len(written.changes),
    }


def vector_metrics(written: WrittenChange | None) -> dict[str, int]:
    """Return the numbers of added, updated and removed deletion vectors."""
    return {
        "numDeletionVectorsAdded": 0 if written is None else written.vectors.vectors_added,
        "numDeletionVectorsUpdated": 0 if written is None else written.vectors.vectors_updated,
        "numDeletionVectorsRemoved": 0 if written is None else written.vectors.vectors_removed,
    }


def copied_row_count(written: WrittenChange | None, changed_row_count: int) -> int:
    """Return the number of unchanged rows in rewritten files.

    An operation with deletion vectors rewrites no file, so it copies no row.
    """
    if written is None or not written.rows_in_rewritten_files:
        return 0
    return written.rows_in_rewritten_files - changed_row_count


def whole_file_row_count(change: RowChange) -> int | None:
    """Return the number of rows of the files that are removed whole, or None if a file has no row count."""
    return live_row_count_by_statistics(change.whole_files)
