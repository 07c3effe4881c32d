"""Functions that write tables of the model to disk in a few milliseconds, and read tables as rows of the model.

A written table has one commit and Parquet files. A file may have statistics and an inline deletion vector. Nothing here
starts Spark.

The functions read through Arrow, so that a reader other than Spark checks the rows that Spark wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite import DeltaTable
from deltalite.columnar.statistics.footer import indexed_columns, statistics_json
from deltalite.protocol.actions import AddFile, Metadata, Protocol
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.schema import PrimitiveType, StructField, StructType, schema_to_json
from deltalite.storage.local import LocalLogStore
from tests.support.row_model.expressions import Kind
from tests.support.row_model.operations import Relation
from tests.support.row_model.random_cases import Features, File, Table
from tests.support.row_model.values import Row
from tests.support.vectors import inline_vector
from tests.unit.builders import commit_actions

_TYPES = {
    "long": "long",
    "int": "integer",
    "double": "double",
    "number": "double",
    "string": "string",
    "part": "string",
}
_CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def write_table(folder: Path, table: Table) -> str:
    """Write a table as version 0; returns its address."""
    folder.mkdir(parents=True)
    schema, properties = _schema(table), _properties(table.features)
    adds = [_write_file(folder, number, file, table, schema, properties) for number, file in enumerate(table.files)]
    metadata = Metadata(
        id="random",
        schema_string=schema_to_json(schema.logical),
        partition_columns=schema.partition_columns,
        configuration=properties,
    )
    commit_actions(LocalLogStore(str(folder)), _protocol(table.features), metadata, *adds, read_version=-1)
    return str(folder)


def read(path: str) -> Relation:
    """The rows of the newest version. Names are in lower case, and the kinds are the names of Arrow types."""
    rows = DeltaTable(path).to_arrow()
    return Relation(
        columns={name.lower(): str(rows.schema.field(name).type) for name in rows.schema.names}, rows=_rows(rows)
    )


def feed(path: str, first: int, last: int) -> list[tuple[str, Row]]:
    """(change type, row) for each change of the versions from `first` to `last`, both inclusive."""
    batches = list(DeltaTable(path, version=last).changes(first, last))
    return [change for batch in batches for change in as_changes(pa.Table.from_batches([batch]))]


def as_changes(rows: pa.Table) -> list[tuple[str, Row]]:
    """(change type, row) for each row of a change feed."""
    change_types = rows["_change_type"].to_pylist()
    return list(zip(change_types, _rows(rows.drop_columns(list(_CHANGE_COLUMNS))), strict=True))


def _rows(table: pa.Table) -> list[Row]:
    return [_with_lower_names(row) for row in table.to_pylist()]


def _with_lower_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {name.lower(): _with_lower_names(member) for name, member in value.items()}
    return value


def _type(kind: Kind, column_ids: Iterator[int] | None) -> Any:
    """The type of a kind. The members of a struct take their ids from `column_ids`; None means no column mapping."""
    if isinstance(kind, str):
        return PrimitiveType(_TYPES[kind])
    return StructType(tuple(_field(name, member, column_ids) for name, member in kind))


def _field(name: str, kind: Kind, column_ids: Iterator[int] | None) -> StructField:
    if column_ids is None:
        return StructField(name, _type(kind, column_ids))
    column_id = next(column_ids)
    metadata = {FIELD_ID: column_id, PHYSICAL_NAME: f"col-{column_id}"}
    return StructField(name, _type(kind, column_ids), metadata=metadata)


def _schema(table: Table) -> TableSchema:
    column_ids = count(1) if table.features.mapped else None
    fields = (_field(table.spellings[name], kind, column_ids) for name, kind in table.columns.items())
    logical = StructType(tuple(fields))
    return TableSchema(
        logical=logical,
        partition_columns=() if table.partition is None else (table.spellings[table.partition],),
        mode=MappingMode.NAME if table.features.mapped else MappingMode.NONE,
    )


def _properties(features: Features) -> dict[str, str]:
    properties = {}
    if features.vectors:
        properties["delta.enableDeletionVectors"] = "true"
    if features.feed:
        properties["delta.enableChangeDataFeed"] = "true"
    if features.mapped:
        properties |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "20"}
    return properties


def _protocol(features: Features) -> Protocol:
    reader_features = ["deletionVectors"] * features.soft_deleted + ["columnMapping"] * features.mapped
    if not reader_features:
        return Protocol(min_reader_version=1, min_writer_version=4 if features.feed else 2)
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=tuple(reader_features),
        writer_features=(*reader_features, *["changeDataFeed"] * features.feed),
    )


def _write_file(
    folder: Path, number: int, file: File, table: Table, schema: TableSchema, properties: dict[str, str]
) -> AddFile:
    """Write a data file; returns the action that adds it."""
    name = f"{number}.parquet"
    column_names = [column for column in table.columns if column != table.partition]
    fields = list(schema_to_arrow(schema.data_columns))
    columns = [
        pa.array([_with_physical_names(row[column], field.type) for row in file.rows], field.type)
        for column, field in zip(column_names, fields, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), folder / name)
    stats = json.loads(statistics_json(pq.read_metadata(folder / name), indexed_columns(schema, properties)))
    stats["tightBounds"] = not file.deleted  # The bounds come from all rows, including deleted ones.
    partition_values = {key: _partition_text(file, table) for key in schema.partition_keys.values()}
    return AddFile(
        path=name,
        partition_values=partition_values,
        size_bytes=(folder / name).stat().st_size,
        modification_time_ms=0,
        data_change=True,
        stats=json.dumps(stats) if file.stats else None,
        deletion_vector=inline_vector(file.deleted) if file.deleted else None,
    )


def _partition_text(file: File, table: Table) -> str | None:
    value = file.rows[0][table.partition or ""]
    return None if value is None else str(value)


def _with_physical_names(value: Any, data_type: pa.DataType) -> Any:
    """A value with physical names of struct members. The members of `data_type` have the same order as in the model."""
    if not isinstance(value, dict):
        return value
    return {data_type.field(index).name: member for index, member in enumerate(value.values())}
