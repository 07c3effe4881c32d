"""`deltalite schema`: the columns of a version, in the table's order.

JSON is one object: `version`, `partitionColumns`, and `schema` as in the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from deltalite.cli.command import Arguments, Command, add_no_arguments, open_table
from deltalite.cli.output import Column, Output
from deltalite.inspection.columns import column_rows
from deltalite.protocol.schema import parse_schema
from deltalite.table import DeltaTable

_COLUMNS = (Column("column"), Column("type", folds=True), Column("null"), Column("partition"), Column("comment"))


def _run(args: Arguments, out: Output) -> int:
    table = open_table(args)
    metadata = table.metadata
    if out.as_json:
        schema = json.loads(metadata.schema_string)
        partition_columns = list(metadata.partition_columns)
        out.record({"version": table.version, "partitionColumns": partition_columns, "schema": schema})
    else:
        out.table(_COLUMNS, _rows(table))
    return 0


def _rows(table: DeltaTable) -> Iterator[tuple[str, ...]]:
    for row in column_rows(parse_schema(table.metadata.schema_string), table.metadata.partition_columns):
        yield (
            "  " * row.depth + row.name,
            row.type_text,
            "" if row.nullable else "not null",
            "" if row.partition_index is None else str(row.partition_index),
            "; ".join(filter(None, [row.comment, *row.rules])),
        )


COMMAND = Command(
    name="schema",
    summary="the columns, their types and rules",
    description=__doc__,
    takes_version=True,
    add_arguments=add_no_arguments,
    run=_run,
)
