"""`deltalite flows`: the incremental sources that the table has loaded, and the last loaded version of each.

A task with an incremental source stores its offset in the table's log. This command cannot change an offset, because a
change is a commit, and only tasks commit. So it prints the call of the operator that resets the offset of a flow.

JSON has one object per flow and source table: `flow`, `sourceTableId`, `version` (the last loaded version of the
source; null if the flow was reset or the table was restored) and `lastUpdated` (the time of the commit; null if
unknown).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltalite.cli.command import Arguments, Command, add_no_arguments, open_table
from deltalite.cli.output import Column, Output
from deltalite.cli.values import time_cell
from deltalite.storage.locations import parse_location
from deltalite.table import Flow, utc_datetime

_COLUMNS = (
    Column("flow", folds=True),
    Column("version", is_number=True),
    Column("last updated"),
    Column("source table id"),
)


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
        "lastUpdated": utc_datetime(flow.last_updated_ms),
    }


def _row(flow: Flow) -> tuple[Any, ...]:
    return (
        flow.name,
        "nothing loaded" if flow.version is None else flow.version,
        time_cell(utc_datetime(flow.last_updated_ms)),
        flow.source_table_id,
    )


def _reset_lines(table: str, name: str) -> Iterator[str]:
    yield "To load the snapshot of a source again, or to continue after another version, run this task once:"
    yield f"    DeltaTableOperator(task_id='reset', table={table!r}, reset_flows={{{name!r}: None}})"


COMMAND = Command(
    name="flows",
    summary="the incremental sources that the table has loaded, with their offsets",
    description=__doc__,
    takes_version=True,
    add_arguments=add_no_arguments,
    run=_run,
)
