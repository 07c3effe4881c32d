"""`deltalite schema`: the columns of a version, in the table's order.

JSON is one object: `version`, `partitionColumns`, and `schema` as in the log.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from deltalite.cli.command import Arguments, Command, open_table
from deltalite.cli.output import Column, Output
from deltalite.protocol.schema import StructField, StructType, parse_schema
from deltalite.table import DeltaTable

_COLUMNS = (Column("column"), Column("type", folds=True), Column("null"), Column("partition"), Column("comment"))
_RULE_NAMES = {
    "delta.generationExpression": "generated",
    "CURRENT_DEFAULT": "default",
    "delta.identity.start": "identity",
    "delta.invariants": "invariant",
}


def _add_arguments(_parser: argparse.ArgumentParser) -> None:
    return None


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
    partition_indexes = {name.lower(): index for index, name in enumerate(table.metadata.partition_columns, 1)}
    for field in parse_schema(table.metadata.schema_string):
        partition_index = partition_indexes.get(field.name.lower())
        yield from _column_rows(field, "", "" if partition_index is None else str(partition_index))


def _column_rows(field: StructField, indent: str, partition_index: str) -> Iterator[tuple[str, ...]]:
    """Yield the row of a column, and a row for each field of a struct."""
    rules = [f"{name}: {field.metadata[key]}" for key, name in _RULE_NAMES.items() if key in field.metadata]
    comment = "; ".join([str(field.metadata.get("comment") or ""), *rules]).removeprefix("; ")
    is_struct = isinstance(field.type, StructType)
    type_text = "struct" if is_struct else str(field.type)
    yield f"{indent}{field.name}", type_text, "" if field.nullable else "not null", partition_index, comment
    if isinstance(field.type, StructType):
        for member in field.type:
            yield from _column_rows(member, f"{indent}  ", "")


COMMAND = Command(
    name="schema",
    summary="the columns, their types and rules",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)
