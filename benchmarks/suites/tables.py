"""Delta tables that all sides of a suite start from: one Parquet file for each part, and one commit.

The suites decide how many files a table has and which rows a file has. Therefore this module writes the files with
pyarrow, and delta-rs commits them.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions


def with_delta_types(rows: pa.Table) -> pa.Table:
    """Return the rows with types that Delta has: nullable columns, and `string` instead of `string_view`."""
    fields = [
        pa.field(field.name, pa.string() if field.type == pa.string_view() else field.type) for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def split(rows: pa.Table, parts: int) -> list[pa.Table]:
    """Return the rows in parts of adjacent rows. The sizes of the parts differ by at most one row."""
    bounds = [rows.num_rows * number // parts for number in range(parts + 1)]
    return [rows.slice(start, end - start) for start, end in itertools.pairwise(bounds)]


def sample(random_generator: random.Random, rows: pa.Table, share: float) -> pa.Table:
    """Return a random share of the rows."""
    indices = random_generator.sample(range(rows.num_rows), round(share * rows.num_rows))
    return rows.take(pa.array(indices, pa.int64()))


def with_values(rows: pa.Table, column: str, values: list[int] | pa.ChunkedArray) -> pa.Table:
    """Return the rows with other values in a column."""
    index = rows.schema.get_field_index(column)
    field = rows.schema.field(index)
    new_values = values if isinstance(values, pa.ChunkedArray) else pa.array(values, field.type)
    return rows.set_column(index, field, new_values)


def make_table(
    table: Path,
    parts: Iterable[pa.Table],
    *,
    partition_column: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Create a Delta table with one file for each part, and a checkpoint. Do nothing if the table exists.

    With `partition_column`, all rows of a part must have the same value in this column.
    """
    if table.is_dir():
        return
    unfinished = table.with_name(f"{table.name}-unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    schema, files = None, []
    for number, part in enumerate(parts):
        schema = schema or part.schema
        files.append(_write_file(unfinished, number, part, partition_column))
    create_table_with_add_actions(
        str(unfinished),
        Schema.from_arrow(schema),
        files,
        partition_by=[partition_column] if partition_column else None,
        configuration=properties,
    )
    DeltaTable(unfinished).create_checkpoint()
    unfinished.rename(table)


def copy_table(table: Path, copy: Path) -> Path:
    """Copy a table without its data files, which become hard links, and return the copy."""

    def link_or_copy(source: str, target: str) -> None:
        if source.endswith(".parquet") and "_delta_log" not in source:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(table, copy, copy_function=link_or_copy)
    return copy


def _write_file(table: Path, number: int, rows: pa.Table, partition_column: str | None) -> AddAction:
    """Write one data file, and return the action that adds it to the table."""
    name, values = f"part-{number:06d}.parquet", {}
    if partition_column is not None:
        value = str(rows[partition_column][0].as_py())
        name, values = f"{partition_column}={value}/{name}", {partition_column: value}
        rows = rows.drop_columns([partition_column])
    path = table / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path)
    return AddAction(
        path=name,
        size=path.stat().st_size,
        partition_values=values,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(_statistics(rows)),
    )


def _statistics(rows: pa.Table) -> dict[str, object]:
    """Return the statistics of a file. Minimum and maximum are those of the integer columns, which are the keys."""
    integers = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    extrema = {name: pc.min_max(rows[name]).as_py() for name in integers}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: values["min"] for name, values in extrema.items() if values["min"] is not None},
        "maxValues": {name: values["max"] for name, values in extrema.items() if values["max"] is not None},
        "nullCount": {name: rows[name].null_count for name in rows.column_names},
    }
