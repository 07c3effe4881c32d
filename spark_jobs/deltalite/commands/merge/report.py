"""The history entry of a merge: delta-spark's parameters and metrics. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from deltalite.commands.common.kept_rows import UncommittedRows
from deltalite.commands.row_changes.plan import RowChange, WrittenChange
from deltalite.commands.row_changes.report import (
    copied_row_count,
    file_metrics,
    predicate_parameter,
    row_operation,
    vector_metrics,
)
from deltalite.requests import MergeClause, MergeRequest
from deltalite.txn.proposal import SOURCE_VERSIONS, Operation

OPERATION = "MERGE"
NOT_MATCHED_BY_SOURCE_PREDICATES = "notMatchedBySourcePredicates"


def merge_operation(request: MergeRequest, change: RowChange, written: WrittenChange | None) -> Operation:
    """Return the operation of a merge into an existing table."""
    parameters = {**_parameters(request, change.source_versions), **change.parameters}
    metrics = {**change.metrics, **_row_metrics(change, written), **_file_metrics(written)}
    return row_operation(request, OPERATION, parameters, metrics)


def first_merge_operation(request: MergeRequest, rows: UncommittedRows) -> Operation:
    """Return the operation of a merge that created its table and inserted all rows."""
    files = rows.files
    metrics = {
        "numTargetRowsInserted": files.row_count,
        "numTargetRowsUpdated": 0,
        "numTargetRowsDeleted": 0,
        "numTargetRowsCopied": 0,
        "numOutputRows": files.row_count,
        "numTargetFilesAdded": len(files.adds),
        "numTargetFilesRemoved": 0,
        "numTargetBytesAdded": files.size_bytes,
        "numTargetBytesRemoved": 0,
    }
    return row_operation(request, OPERATION, _parameters(request, rows.source_versions), metrics)


def _parameters(request: MergeRequest, source_versions: Mapping[str, int]) -> dict[str, str]:
    parameters = {
        "predicate": predicate_parameter([request.on]),
        "matchedPredicates": _clause_list(request.when_matched),
        "notMatchedPredicates": _clause_list(request.when_not_matched),
        NOT_MATCHED_BY_SOURCE_PREDICATES: _clause_list(request.when_not_matched_by_source),
    }
    if source_versions:
        parameters[SOURCE_VERSIONS] = json.dumps(source_versions)
    return parameters


def _clause_list(clauses: Sequence[MergeClause]) -> str:
    """Return the clauses as a JSON list."""
    return json.dumps(
        [
            {**({} if clause.condition is None else {"predicate": clause.condition}), "actionType": clause.actions[0]}
            for clause in clauses
        ]
    )


def _row_metrics(change: RowChange, written: WrittenChange | None) -> dict[str, int]:
    metrics = change.metrics
    updated = metrics["numTargetRowsMatchedUpdated"] + metrics["numTargetRowsNotMatchedBySourceUpdated"]
    deleted = metrics["numTargetRowsMatchedDeleted"] + metrics["numTargetRowsNotMatchedBySourceDeleted"]
    output_rows = 0 if written is None else written.data_files.row_count
    copied = copied_row_count(written, updated + deleted)
    return {
        "numTargetRowsInserted": output_rows - updated - copied,
        "numTargetRowsUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsCopied": copied,
        "numOutputRows": output_rows,
    }


def _file_metrics(written: WrittenChange | None) -> dict[str, int]:
    files, vectors = file_metrics(written), vector_metrics(written)
    return {
        "numTargetFilesAdded": files["numAddedFiles"],
        "numTargetFilesRemoved": files["numRemovedFiles"],
        "numTargetBytesAdded": files["numAddedBytes"],
        "numTargetBytesRemoved": files["numRemovedBytes"],
        "numTargetChangeFilesAdded": files["numAddedChangeFiles"],
        **{name.replace("num", "numTarget", 1): count for name, count in vectors.items()},
    }
