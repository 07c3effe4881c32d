"""The transaction that names the loaded files of a table version.

The commit with the rows of new files sets the transaction to the number of a manifest (`loaded_files.manifest`). So the
rows and the record of their files cannot diverge. The functions here do no I/O. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltalite.loaded_files.choice import FileChoice
from deltalite.loaded_files.manifest import current_manifest_number
from deltalite.protocol.actions import LOADED_FILES_APP_ID, SetTransaction
from deltalite.requests import CopyRequest
from deltalite.results import OperationResult, result_without_commit
from deltalite.txn.transaction_retention import check_keeps_transactions


def result_without_load(
    request: CopyRequest, table: str, version: int | None, choice: FileChoice
) -> OperationResult | None:
    """Return the result of a run that commits nothing, because no file is new; None if the run loads a file.

    Args:
        request: the request of the load.
        table: the address of the table.
        version: the version of the table that the run has read, None without a table.
        choice: the files that the run loads.
    """
    if choice.files.num_rows:
        return None
    path, count = request.source.path or "", choice.listed_count
    reason = (
        f"The table has loaded all matching files in {path} ({count})."
        if count
        else f"No file in {path} matches the request."
    )
    result = result_without_commit(
        request.operation, table, version, run=request.identity, skipped=True, metrics=choice.metrics
    )
    return replace(result, skip_reason=reason)


def check_keeps_loaded_files(configuration: Mapping[str, str], *, table: str) -> None:
    """Check that the transactions of the table never expire.

    Raises:
        InvalidRequestError: the table has `delta.setTransactionRetentionDuration`.
    """
    check_keeps_transactions(
        configuration,
        failure=f"Could not load files into {table}",
        effect="the record of loaded files, and files would be loaded twice",
        advice="If the table has loaded files before, check with `deltalite loaded` that it still shows them.",
    )


def loaded_files_transaction(number: int, *, now_ms: int) -> SetTransaction:
    """Return the transaction that names the manifest with this number."""
    return SetTransaction(app_id=LOADED_FILES_APP_ID, version=number, last_updated_ms=now_ms)


def restored_loaded_files(
    current: Mapping[str, SetTransaction], restored: Mapping[str, SetTransaction], *, now_ms: int
) -> tuple[SetTransaction, ...]:
    """Return the transaction that a restore commits, so that the table has the loaded files of the restored version.

    `current` and `restored` are the transactions of the newest version and of the restored version. The result is empty
    if both name the same manifest.
    """
    number = current_manifest_number(restored)
    return () if number == current_manifest_number(current) else (loaded_files_transaction(number, now_ms=now_ms),)
