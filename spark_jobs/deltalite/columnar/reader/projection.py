"""The columns of a read, and the schema of its result.

A name is a column of the table, or a path into its structs such as `address.city`. With paths into a struct, the reader
returns only the named fields of the struct, in the table's order. A `MetadataColumn` requests a fact about a row. The
text "_file" means the table's column `_file` if the table has this column. `MetadataColumn.FILE` never means a column.
Names are not case-sensitive, and the result spells them as the table does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from deltalite.columnar.predicates.filters import resolve_column
from deltalite.columnar.predicates.predicate import Path
from deltalite.errors import InvalidRequestError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.schema import StructField, StructType


class MetadataColumn(StrEnum):
    """A fact about a row.

    - `ROW_INDEX`, `FILE`: the position of the row in its file, and the file's path.
    - `IS_DELETED`: whether the row is soft-deleted.
    - `ROW_ID`: the id that the row keeps when it moves or changes.
    - `ROW_COMMIT_VERSION`: the version that inserted or last changed the row.

    `ROW_ID` and `ROW_COMMIT_VERSION` need row tracking, and are null in a file without ids.
    """

    ROW_INDEX = "_row_index"
    FILE = "_file"
    IS_DELETED = "_is_deleted"
    ROW_ID = "_row_id"
    ROW_COMMIT_VERSION = "_row_commit_version"


_ROW_IDS = (MetadataColumn.ROW_ID, MetadataColumn.ROW_COMMIT_VERSION)
_METADATA_FIELDS = {
    MetadataColumn.ROW_INDEX: pa.field("", pa.int64(), nullable=False),
    MetadataColumn.FILE: pa.field("", pa.string(), nullable=False),
    MetadataColumn.IS_DELETED: pa.field("", pa.bool_(), nullable=False),
    MetadataColumn.ROW_ID: pa.field("", pa.int64()),
    MetadataColumn.ROW_COMMIT_VERSION: pa.field("", pa.int64()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The columns of a result, in order: fields of the table (structs with the chosen fields), or facts about rows."""

    items: tuple[StructField | MetadataColumn, ...]

    @property
    def fields(self) -> StructType:
        """The table's columns among the items."""
        return StructType(tuple(item for item in self.items if isinstance(item, StructField)))

    @property
    def arrow(self) -> pa.Schema:
        """The schema of the result."""
        return pa.schema([_arrow_field(item) for item in self.items])

    def has(self, column: MetadataColumn) -> bool:
        """Whether the result has this metadata column."""
        # A field of the table may have the same name, so compare by identity.
        return any(item is column for item in self.items)

    @property
    def has_row_ids(self) -> bool:
        """Whether the result has row ids or row commit versions."""
        return any(self.has(column) for column in _ROW_IDS)


def may_request_row_ids(columns: Iterable[str]) -> bool:
    """Whether the names may request row ids or row commit versions.

    A column of the table with such a name counts too, because the table is unknown here.
    """
    return any(str(name).lower() in _ROW_IDS for name in columns)


def project(columns: Sequence[str] | None, schema: StructType) -> Projection:
    """Resolve `columns` (names, paths or `MetadataColumn`s; None for the whole table) in a table's schema.

    Raises:
        InvalidRequestError: `columns` is not a list of names, a column does not exist, or the result would have two
            columns of one name.
    """
    if columns is None:
        return Projection(items=schema.fields)
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns is the text {columns!r}, not a list.", remedy=f"Write [{columns!r}].")
    paths: dict[str, list[Path]] = {}
    metadata_columns: dict[str, MetadataColumn] = {}
    order: dict[str, None] = {}
    for name in columns:
        metadata_column = _metadata_column(name, schema)
        if metadata_column is not None:
            metadata_columns[metadata_column.value] = metadata_column
            order[metadata_column.value] = None
        else:
            path, _ = resolve_column(name, schema)
            paths.setdefault(path[0], []).append(path)
            order[path[0]] = None
    ambiguous_names = [name for name in metadata_columns if name in paths]
    if ambiguous_names:
        raise InvalidRequestError(
            f"The result would have two columns '{ambiguous_names[0]}': one of the table, and a metadata column.",
            remedy="Request only one: a member of MetadataColumn, or the name as a text for the table's column.",
        )
    fields = {f.name: f for f in restrict(schema, [path for column_paths in paths.values() for path in column_paths])}
    return Projection(
        items=tuple(metadata_columns[name] if name in metadata_columns else fields[name] for name in order)
    )


def restrict(schema: StructType, paths: Iterable[Path]) -> StructType:
    """Return the fields of a schema that the paths select, in the schema's order.

    A path to a struct selects the whole struct.
    """
    paths_by_name: dict[str, list[Path]] = {}
    for path in paths:
        paths_by_name.setdefault(path[0], []).append(path[1:])
    fields = []
    for field in schema:
        if field.name in paths_by_name:
            member_paths = paths_by_name[field.name]
            if isinstance(field.type, StructType) and () not in member_paths:
                member_type = restrict(field.type, member_paths)
                fields.append(StructField(field.name, member_type, field.nullable, field.metadata))
            else:
                fields.append(field)
    return StructType(tuple(fields))


def leaf_paths(schema: StructType, prefix: Path = ()) -> Iterable[Path]:
    """Return the path of each field that is not a struct with fields. With these paths, `restrict` keeps all fields."""
    for field in schema:
        path = (*prefix, field.name)
        if isinstance(field.type, StructType) and field.type.fields:
            yield from leaf_paths(field.type, path)
        else:
            yield path


def _metadata_column(name: str, schema: StructType) -> MetadataColumn | None:
    if isinstance(name, MetadataColumn):
        return name
    if not isinstance(name, str):
        raise InvalidRequestError(f"Invalid column name {name!r}.", remedy="Give names of columns.")
    is_metadata = name.lower() in set(MetadataColumn) and schema.find(name) is None
    return MetadataColumn(name.lower()) if is_metadata else None


def _arrow_field(item: StructField | MetadataColumn) -> pa.Field:
    if isinstance(item, MetadataColumn):
        return _METADATA_FIELDS[item].with_name(item.value)
    return pa.field(item.name, type_to_arrow(item.type), item.nullable)
