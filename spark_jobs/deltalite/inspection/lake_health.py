"""The health report of many tables, which are read in parallel. An unreadable table gives one row with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltalite.errors import TableNotFoundError
from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import read_health
from deltalite.inspection.table_rows import RowError, StepOutcome, TableRow
from deltalite.requests import Thresholds
from deltalite.storage.log_store import LogStore


def health_rows(
    addresses: Sequence[str],
    open_store: Callable[[str], LogStore],
    thresholds: Thresholds,
    *,
    now_ms: int,
    parallelism: int,
    may_be_other_folders: bool,
) -> Iterator[TableRow]:
    """Yield a row for each table, in the order of the addresses.

    Args:
        addresses: the addresses.
        open_store: opens the log of a table.
        thresholds: the thresholds of the decisions.
        now_ms: the time of the report, in milliseconds UTC.
        parallelism: the number of tables that are read at the same time.
        may_be_other_folders: whether the addresses come from a pattern. A folder without a table then has no row.
    """
    with ThreadPoolExecutor(max_workers=parallelism, thread_name_prefix="health") as pool:
        rows = pool.map(
            lambda address: health_row(
                address, open_store, thresholds, now_ms=now_ms, may_be_other_folder=may_be_other_folders
            ),
            addresses,
        )
        yield from (row for row in rows if row is not None)


def health_row(
    address: str,
    open_store: Callable[[str], LogStore],
    thresholds: Thresholds,
    *,
    now_ms: int,
    may_be_other_folder: bool = False,
) -> TableRow | None:
    """Return the row of one table; None if there is no table and the address may be that of another folder."""
    try:
        health = read_health(open_store(address), thresholds, now_ms=now_ms)
    except TableNotFoundError as error:
        return None if may_be_other_folder else TableRow(table=address, error=RowError.of(error))
    except Exception as error:  # noqa: BLE001  one unreadable table must not end the report
        return TableRow(table=address, error=RowError.of(error))
    decisions = decide(health, thresholds)
    return TableRow(table=address, before=health, steps=tuple(map(StepOutcome.of, decisions)))
