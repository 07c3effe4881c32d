"""A folder of data files that is read as a table without a log, for tests of the reader."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.columnar.predicates.predicate import Comparison, Operator
from deltalite.columnar.reader.data_file import DataFile, data_files
from deltalite.columnar.reader.stream import read_files
from deltalite.log.file_table import DELETION_VECTOR
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.paths import encode_path
from deltalite.protocol.schema import DataType, PrimitiveType, StructField, StructType
from deltalite.storage.local import LocalLogStore
from tests.unit.builders import schema_from_arrow


def struct_of(**columns: DataType) -> StructType:
    """A schema of nullable columns."""
    return StructType(tuple(StructField(name, kind) for name, kind in columns.items()))


def field_with(name: str, kind: DataType, **metadata: Any) -> StructField:
    """A column with metadata of column mapping: its `physical` name, its `id`, or both."""
    keys = {"physical": "delta.columnMapping.physicalName", "id": "delta.columnMapping.id"}
    return StructField(name, kind, metadata={keys[key]: value for key, value in metadata.items()})


def comparison(column: str, operator: str, literal: Any) -> Comparison:
    """A comparison of a column with a literal. The path of a member has slashes, such as `address/city`."""
    return Comparison(column=tuple(column.split("/")), operator=Operator(operator), literal=literal)


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    """A field of a Parquet file with this field id."""
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


class Lake:
    """Data files in a folder, read as one table.

    `listed_files` has the path, the partition values and the deletion vector of each file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, LocalLogStore(str(folder))
        self.listed_files: list[tuple[str, list[tuple[str, str | None]], Any]] = []

    def add(
        self,
        table: pa.Table,
        name: str = "f.parquet",
        partition_values: dict[str, str | None] | None = None,
        deletion_vector: Any = None,
        **options: Any,
    ) -> Lake:
        """Write a Parquet file and list it; `options` are those of `pq.write_table`."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, self.folder / name, **options)
        return self.list_file(encode_path(name), partition_values, deletion_vector)

    def list_file(
        self, path: str, partition_values: dict[str, str | None] | None = None, deletion_vector: Any = None
    ) -> Lake:
        """List a file, which need not exist; `path` is encoded as in the log."""
        self.listed_files.append((path, list((partition_values or {}).items()), deletion_vector))
        return self

    @property
    def files(self) -> pa.Table:
        """The listed files, as a file table of the library."""
        paths, values, vectors = zip(*self.listed_files, strict=True) if self.listed_files else ((), (), ())
        return pa.table(
            {
                "path": pa.array(paths, pa.string()),
                "partitionValues": pa.array(values, pa.map_(pa.string(), pa.string())),
                "deletionVector": pa.array(vectors, DELETION_VECTOR),
            }
        )

    def data_files(self, **changes: Any) -> list[DataFile]:
        """The listed files as the reader takes them. `changes` replace the fields of each."""
        return [dataclasses.replace(file, **changes) for file in data_files(self.files)]

    def batches(
        self,
        schema: StructType | pa.Schema | TableSchema,
        partition_columns: Any = (),
        files: Any = None,
        **options: Any,
    ) -> Any:
        """Read the files, by default all; yields record batches."""
        if isinstance(schema, pa.Schema):
            schema = schema_from_arrow(schema)
        if isinstance(schema, StructType):
            schema = TableSchema(logical=schema, partition_columns=tuple(partition_columns))
        return read_files(self.store, self.data_files() if files is None else files, schema, **options)

    def read(self, schema: Any, partition_columns: Any = (), **options: Any) -> pa.Table | None:
        """Read the files; returns a table, or None if the reader yields no batch."""
        batches = list(self.batches(schema, partition_columns, **options))
        return pa.Table.from_batches(batches) if batches else None

    def rows_of(self, schema: Any, partition_columns: Any = (), **options: Any) -> list[dict[str, Any]]:
        """Read the files; returns their rows."""
        table = self.read(schema, partition_columns, **options)
        return [] if table is None else table.to_pylist()


NUMBERS = struct_of(a=PrimitiveType("long"))
"""The schema of `add_numbers`."""


def add_numbers(lake: Lake, count: int = 10, group: int = 3, **options: Any) -> Lake:
    """Add a file with the numbers from 0 on in column `a`, in row groups of `group` rows."""
    return lake.add(pa.table({"a": list(range(count))}), row_group_size=group, **options)


def read_numbers(lake: Lake, **options: Any) -> list[int]:
    """Read the column `a` of the files."""
    return [row["a"] for row in lake.rows_of(NUMBERS, **options)]
