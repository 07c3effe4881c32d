"""The refusal of operations that change or remove rows of an append-only table.

DELETE, UPDATE and overwrite are refused before a row is read, even if no row matches. So a task fails on its first run,
not only on a day with matching rows. A merge, a restore or a write with `on_rerun="replace"` is refused if it would
remove a file.
Protocol: Append-only Tables. delta-spark: DeltaLog.assertRemovable.
"""

from __future__ import annotations

from deltalite.errors import AppendOnlyError
from deltalite.protocol.features import is_in_force
from deltalite.snapshot import Snapshot


def refuse_if_append_only(base: Snapshot, effect: str, *, remedy: str) -> None:
    """Refuse an operation on an append-only table.

    `effect` is the part of the message about the operation, such as "DELETE removes rows".

    Raises:
        AppendOnlyError: the table is append-only.
    """
    if is_in_force("appendOnly", base.protocol, base.metadata):
        raise AppendOnlyError(f"{base.store.root} is append-only (delta.appendOnly), and {effect}.", remedy=remedy)
