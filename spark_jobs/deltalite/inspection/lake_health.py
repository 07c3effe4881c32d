"""The health report of many tables, which are read in parallel. An unreadable table gives one row with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltalite.errors import InvalidTableAddressError, TableNotFoundError
from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import read_health
from deltalite.inspection.table_rows import RowError, StepOutcome, TableRow
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.locations import canonical_address, parse_location
from deltalite.storage.log_store import LogStore

RowCompletion = Callable[[Snapshot, TableRow], TableRow]
"""A function of the caller that adds values to the row of a table. It gets the snapshot that was measured."""


def health_rows(
    tables: Sequence[str],
    folders: Sequence[str],
    open_store: Callable[[str], LogStore],
    thresholds: Thresholds,
    *,
    now_ms: int,
    parallelism: int,
    complete_row: RowCompletion | None = None,
) -> Iterator[TableRow]:
    """Yield a row for each table, in the order of the addresses. Two spellings of an address give one row.

    Args:
        tables: the addresses of tables. An address without a table has a row with its error.
        folders: the addresses that match a pattern. A folder without a table has no row. A folder whose name a table
            cannot have, such as one that ends with a blank, has a row with an error.
        open_store: opens the log of a table.
        thresholds: the thresholds of the decisions.
        now_ms: the time of the report, in milliseconds UTC.
        parallelism: the number of tables that are read at the same time.
        complete_row: completes each row.

    Raises:
        InvalidTableAddressError: an address of `tables` is invalid.
    """
    named_tables = frozenset(tables)

    def row_of(address: str) -> TableRow | None:
        try:
            snapshot = Snapshot.load(open_store(address))
            health = read_health(snapshot, thresholds, now_ms=now_ms)
            row = TableRow(table=address, before=health, steps=tuple(map(StepOutcome.of, decide(health, thresholds))))
            return row if complete_row is None else complete_row(snapshot, row)
        except TableNotFoundError as error:
            return TableRow(table=address, error=RowError.of(error)) if address in named_tables else None
        except Exception as error:  # noqa: BLE001  one unreadable table must not end the report
            return TableRow(table=address, error=RowError.of(error))

    with ThreadPoolExecutor(max_workers=parallelism, thread_name_prefix="health") as pool:
        yield from (row for row in pool.map(row_of, _distinct(tables, folders)) if row is not None)


def _distinct(tables: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Return the first spelling of each address. An invalid one in `tables` raises `InvalidTableAddressError`."""
    by_location: dict[str, str] = {}
    for address in tables:
        by_location.setdefault(canonical_address(parse_location(address)), address)
    for address in folders:
        try:
            location = canonical_address(parse_location(address))
        except InvalidTableAddressError:  # the row of the folder has the error
            location = address
        by_location.setdefault(location, address)
    return list(by_location.values())
