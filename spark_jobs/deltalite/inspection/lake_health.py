"""The health report of many tables, which are read in parallel. An unreadable table gives one row with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltalite.errors import TableNotFoundError
from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import read_health
from deltalite.inspection.table_rows import RowError, StepOutcome, TableRow
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

CompleteRow = Callable[[Snapshot, TableRow], TableRow]
"""Completes the row of a table with what only the caller knows, from the snapshot that the measures come from."""


def health_rows(
    addresses: Sequence[str],
    open_store: Callable[[str], LogStore],
    thresholds: Thresholds,
    *,
    now_ms: int,
    parallelism: int,
    may_be_other_folders: bool,
    complete_row: CompleteRow | None = None,
) -> Iterator[TableRow]:
    """Yield a row for each table, in the order of the addresses.

    Args:
        addresses: the addresses.
        open_store: opens the log of a table.
        thresholds: the thresholds of the decisions.
        now_ms: the time of the report, in milliseconds UTC.
        parallelism: the number of tables that are read at the same time.
        may_be_other_folders: whether the addresses come from a pattern. A folder without a table then has no row.
        complete_row: completes each row.
    """

    def row_of(address: str) -> TableRow | None:
        try:
            snapshot = Snapshot.load(open_store(address))
            health = read_health(snapshot, thresholds, now_ms=now_ms)
            row = TableRow(table=address, before=health, steps=tuple(map(StepOutcome.of, decide(health, thresholds))))
            return row if complete_row is None else complete_row(snapshot, row)
        except TableNotFoundError as error:
            return None if may_be_other_folders else TableRow(table=address, error=RowError.of(error))
        except Exception as error:  # noqa: BLE001  one unreadable table must not end the report
            return TableRow(table=address, error=RowError.of(error))

    with ThreadPoolExecutor(max_workers=parallelism, thread_name_prefix="health") as pool:
        yield from (row for row in pool.map(row_of, addresses) if row is not None)
