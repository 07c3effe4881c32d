"""How a merge looks in the table's history: Spark's parameters and metrics. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltalite.commands.row_change import CarriedOut, RowChange
from deltalite.commands.row_report import file_metrics, predicate_parameter, row_operation, vector_metrics
from deltalite.requests import MergeClause, MergeRequest
from deltalite.txn.proposal import Operation

OPERATION = "MERGE"


def described(request: MergeRequest, change: RowChange, done: CarriedOut | None) -> Operation:
    """The operation."""
    parameters = {
        "predicate": predicate_parameter([request.on]),
        "matchedPredicates": _clauses(request.when_matched),
        "notMatchedPredicates": _clauses(request.when_not_matched),
        "notMatchedBySourcePredicates": _clauses(request.when_not_matched_by_source),
    }
    return row_operation(request, OPERATION, parameters, {**change.counts, **_rows(change, done), **_files(done)})


def _clauses(clauses: Sequence[MergeClause]) -> str:
    """JSON text of a list."""
    return json.dumps(
        [
            {**({} if one.condition is None else {"predicate": one.condition}), "actionType": one.actions[0]}
            for one in clauses
        ]
    )


def _rows(change: RowChange, done: CarriedOut | None) -> dict[str, int]:
    counts = change.counts
    updated = counts["numTargetRowsMatchedUpdated"] + counts["numTargetRowsNotMatchedBySourceUpdated"]
    deleted = counts["numTargetRowsMatchedDeleted"] + counts["numTargetRowsNotMatchedBySourceDeleted"]
    written = 0 if done is None else done.written.rows
    copied = done.rewritten_rows - updated - deleted if done is not None and done.rewritten_rows else 0
    return {
        "numTargetRowsInserted": written - updated - copied,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsCopied": copied,
        "numOutputRows": written,
    }


def _files(done: CarriedOut | None) -> dict[str, int]:
    files, vectors = file_metrics(done), vector_metrics(done)
    return {
        "numTargetFilesAdded": files["numAddedFiles"],
        "numTargetFilesRemoved": files["numRemovedFiles"],
        "numTargetBytesAdded": files["numAddedBytes"],
        "numTargetBytesRemoved": files["numRemovedBytes"],
        "numTargetChangeFilesAdded": files["numAddedChangeFiles"],
        **{name.replace("num", "numTarget", 1): count for name, count in vectors.items()},
    }
