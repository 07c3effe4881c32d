"""The transaction that names the loaded files of a table version.

The commit with the rows of new files sets the transaction to the number of a manifest (`loaded_files.manifest`). So the
rows and the record of their files cannot diverge, and every engine keeps the record. The functions here do no I/O.
Protocol: Transaction Identifiers.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltalite.loaded_files.manifest import current_number
from deltalite.protocol.actions import LOADED_FILES_APP_ID, SetTransaction


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
    number = current_number(restored)
    return () if number == current_number(current) else (loaded_files_transaction(number, now_ms=now_ms),)
