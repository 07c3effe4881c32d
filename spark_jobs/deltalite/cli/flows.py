"""`deltalite flows`: the incremental sources that the table has loaded, and the last loaded version of each.

A task with an incremental source stores its offset in the table's log. This command cannot change an offset, because a
change is a commit, and only tasks commit. So it prints the call of the operator that resets the offset of a flow.

JSON has one object per flow and source table: `flow`, `sourceTableId`, `version` (the last loaded version of the
source; null if the flow was reset or the table was restored) and `lastUpdated` (the time of the commit; null if
unknown).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from deltalite.cli.command import Arguments, Command, open_table
from deltalite.cli.output import Column, Output
from deltalite.storage.locations import parse_location
from deltalite.table import Flow

_COLUMNS = (
    Column("flow", folds=True),
    Column("version", is_number=True),
    Column("last updated"),
    Column("source table id"),
)


def _add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has only the arguments of all commands."""


def _run(args: Arguments, out: Output) -> int:
    flows = open_table(args).flows()
    if out.as_json:
        out.records(_record(flow) for flow in flows)
        return 0
    out.table(_COLUMNS, map(_row, flows))
    if flows:
        out.line()
        for line in _reset_lines(parse_location(args.table).path, flows[0].name):
            out.line(line)
    return 0


def _record(flow: Flow) -> dict[str, Any]:
    return {
        "flow": flow.name,
        "sourceTableId": flow.source_table_id,
        "version": flow.version,
        "lastUpdated": _time(flow),
    }


def _row(flow: Flow) -> tuple[Any, ...]:
    time = _time(flow)
    return (
        flow.name,
        "nothing loaded" if flow.version is None else flow.version,
        "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}Z",
        flow.source_table_id,
    )


def _time(flow: Flow) -> datetime | None:
    try:
        return None if flow.last_updated_ms is None else datetime.fromtimestamp(flow.last_updated_ms / 1000, tz=UTC)
    except (OverflowError, ValueError):
        return None


def _reset_lines(table: str, name: str) -> Iterator[str]:
    yield "To load the snapshot of a source again, or to continue after another version, run this task once:"
    yield f"    DeltaTableOperator(task_id='reset', table={table!r}, reset_flows={{{name!r}: None}})"


COMMAND = Command(
    name="flows",
    summary="the incremental sources that the table has loaded, with their offsets",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)
