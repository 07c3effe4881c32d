"""The mapping of a data file's columns to the table's columns.

At each level of structs, the mapping finds a column by its Parquet field id if the column mapping mode is `id`. In the
other modes, it finds the column by its physical name: an exact match first, then without regard to case. Elements, keys
and values match by position. The result is the list of Parquet leaves to read, and a conversion of the array. The
conversion renames and orders fields, sets missing fields to null, and casts values without loss. If a file has none of
a struct's requested fields, the reader reads the struct's first leaf to see in which rows the struct is null. Protocol:
Reader Requirements for Column Mapping; Variant Data Type; Type Widening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
from pyarrow import types

from deltalite.columnar.parquet.casts import (
    Convert,
    Member,
    cast_without_loss,
    convert_list,
    convert_map,
    convert_struct,
    storage_of,
)
from deltalite.columnar.parquet.shredded_variants import TYPED_VALUE, variant_conversion
from deltalite.columnar.parquet.variant_encoding import BrokenVariantError
from deltalite.errors import CorruptDataFileError
from deltalite.protocol.arrow_schema import is_list, storage_type_of, type_to_arrow
from deltalite.protocol.column_mapping import MappingMode, field_id
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

VOID = PrimitiveType("void")
VARIANT = PrimitiveType("variant")
_VARIANT_MEMBERS = StructType(
    (StructField("metadata", PrimitiveType("binary")), StructField("value", PrimitiveType("binary")))
)
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """A column of a file, or a part of a column: a field of a struct, an element of a list, a key or value of a map.

    `leaves` are its Parquet columns, which are adjacent. `parts` are the parts one level below.
    """

    name: str
    field_id: int | None
    type: pa.DataType
    leaves: range
    parts: tuple[FileField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """The Parquet leaves of a column of the table, or of a part of a column, and the conversion of their array.

    With `can_skip_conversion`, an array that already has the table's Arrow type is used as it is. This requires that
    the file uses the table's names, and that no leaf has a special conversion. An equal type alone is not enough: with
    column mapping, a file may store `a` under the name `b`, and `b` under the name `a`.
    """

    name_in_file: str
    leaves: tuple[int, ...]
    convert: Convert
    can_skip_conversion: bool


def fields_of(schema: pa.Schema) -> tuple[FileField, ...]:
    """Return the columns of a file, from the Arrow form of its Parquet schema."""
    first_leaf = 0
    columns = []
    for field in schema:
        columns.append(_file_field(field, first_leaf))
        first_leaf = columns[-1].leaves.stop
    return tuple(columns)


def _file_field(field: pa.Field, first_leaf: int) -> FileField:
    storage_type = storage_type_of(field.type)
    parts: list[FileField] = []
    end = first_leaf
    for part in _parts_of(storage_type):
        parts.append(_file_field(part, end))
        end = parts[-1].leaves.stop
    id_text = (field.metadata or {}).get(_FIELD_ID, b"")  # the Arrow schema in a file may have any text here
    return FileField(
        name=field.name,
        field_id=int(id_text) if id_text.isdigit() else None,
        type=storage_type,
        leaves=range(first_leaf, end if parts else first_leaf + 1),
        parts=tuple(parts),
    )


def _parts_of(data_type: pa.DataType) -> Iterator[pa.Field]:
    if types.is_map(data_type):
        yield data_type.key_field
        yield data_type.item_field
    elif types.is_nested(data_type):
        yield from (data_type.field(index) for index in range(data_type.num_fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The fields of one level of a file, by name in lower case and by field id."""

    by_name: Mapping[str, Sequence[FileField]]
    by_id: Mapping[int, Sequence[FileField]]

    @classmethod
    def of(cls, fields: Iterable[FileField]) -> Level:
        """Return the level of these fields, indexed by name and by field id."""
        by_name: dict[str, list[FileField]] = {}
        by_id: dict[int, list[FileField]] = {}
        for field in fields:
            by_name.setdefault(field.name.lower(), []).append(field)
            if field.field_id is not None:
                by_id.setdefault(field.field_id, []).append(field)
        return cls(by_name=by_name, by_id=by_id)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a file's schema, with indexes.

    Files with the same schema share a layout, because building the indexes takes microseconds per column.
    """

    fields: tuple[FileField, ...]

    @cached_property
    def top(self) -> Level:
        """The top level of columns, for `FileColumns.member`."""
        return Level.of(self.fields)

    @cached_property
    def has_ids(self) -> bool:
        """Whether any column, or any part of a column, has a Parquet field id."""
        return any(_has_id(f) for f in self.fields)

    @cached_property
    def first_leaves(self) -> tuple[int, ...]:
        """The first Parquet leaf of each column."""
        return tuple(f.leaves.start for f in self.fields)


class LayoutCache:
    """A cache of the last layout, because most files of a table have the same schema.

    Threads may share it. Two threads may build the same layout at the same time.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[pa.Schema, Layout] | None = None

    def of(self, schema: pa.Schema) -> Layout:
        """Return the layout of a file, from the Arrow form of its Parquet schema."""
        columns = schema.remove_metadata()  # removes only the file's metadata; columns keep metadata with field ids
        last = self._last
        if last is not None and last[0].equals(columns, check_metadata=True):
            return last[1]
        layout = Layout(fields=fields_of(columns))
        self._last = columns, layout
        return layout


@dataclass(frozen=True, kw_only=True)
class FileColumns:
    """Finds the table's columns in one data file.

    `leaf_conversion` returns the conversion of a leaf with values of another meaning, such as Julian dates. It returns
    None if `casts.cast_without_loss` is enough. `file` is the name of the file in errors.
    """

    layout: Layout
    mode: MappingMode
    file: str
    leaf_conversion: Callable[[FileField, pa.DataType], Convert | None]

    def find(self, logical: StructField, physical: StructField) -> MappedColumn | None:
        """Find a column of the table; return None if the file does not have it, or if its type is void.

        Args:
            logical: the field with the names of the result.
            physical: the same field with the names and ids that files use.

        Raises:
            CorruptDataFileError: two columns of the file match, the file lacks field ids and the table uses them, or a
                variant is shredded in an invalid way.
        """
        field = self.member(physical, self.layout.top, logical.name)
        if field is None or logical.type == VOID:
            return None
        return self._map_column(logical.type, physical.type, field, logical.name)

    def member(self, physical: StructField, level: Level, path: str) -> FileField | None:
        """Find the field of a level that stores `physical`, a field of the physical schema; None if there is no field.

        `path` is the name of the field in errors.

        Raises:
            CorruptDataFileError: two fields match, or the file lacks field ids and the table uses them.
        """
        mapped_id = field_id(physical.metadata) if self.mode is MappingMode.ID else None
        if mapped_id is not None:
            self._check_has_ids()
            candidates = level.by_id.get(mapped_id, ())
        else:
            same_names = level.by_name.get(physical.name.lower(), ())
            candidates = [f for f in same_names if f.name == physical.name] or same_names
        if len(candidates) > 1:
            raise CorruptDataFileError(
                f"The data file '{self.file}' has {len(candidates)} columns that could be '{path}': "
                f"{', '.join(repr(f.name) for f in candidates)}.",
                remedy="Rewrite the file with only one of these columns.",
            )
        return candidates[0] if candidates else None

    def _check_has_ids(self) -> None:
        if not self.layout.has_ids:
            raise CorruptDataFileError(
                f"The table finds its columns by field id (column mapping mode 'id'), but the data file '{self.file}' "
                "has no ids.",
                remedy="Rewrite the file with the engine that wrote it.",
            )

    def _map_column(self, logical: DataType, physical: DataType, field: FileField, path: str) -> MappedColumn:
        target = type_to_arrow(logical)
        if logical == VARIANT and types.is_struct(field.type):
            if any(part.name == TYPED_VALUE for part in field.parts):
                return self._map_shredded(field, path)
            # The members of a variant have fixed names, also in a table with column mapping.
            columns_without_mapping = FileColumns(
                layout=Layout(fields=()), mode=MappingMode.NONE, file=self.file, leaf_conversion=self.leaf_conversion
            )
            return columns_without_mapping._map_struct(_VARIANT_MEMBERS, _VARIANT_MEMBERS, field, target, path)
        match logical, physical:
            case StructType(), StructType() if types.is_struct(field.type):
                return self._map_struct(logical, physical, field, target, path)
            case ArrayType(element), ArrayType(physical_element) if is_list(field.type):
                elements = self._map_column(element, physical_element, field.parts[0], f"{path}.element")
                return _nested_column(
                    field, target, [elements], lambda array: convert_list(array, target, elements.convert)
                )
            case MapType(key, value), MapType(physical_key, physical_value) if types.is_map(field.type):
                keys = self._map_column(key, physical_key, field.parts[0], f"{path}.key")
                values = self._map_column(value, physical_value, field.parts[1], f"{path}.value")
                return _nested_column(
                    field,
                    target,
                    [keys, values],
                    lambda array: convert_map(array, target, keys.convert, values.convert),
                )
            case _:
                convert = self.leaf_conversion(field, target)
                return MappedColumn(
                    name_in_file=field.name,
                    leaves=tuple(field.leaves),
                    convert=convert or partial(cast_without_loss, target=target),
                    can_skip_conversion=convert is None,
                )

    def _map_shredded(self, field: FileField, path: str) -> MappedColumn:
        try:
            convert = variant_conversion(field, lambda part: self.leaf_conversion(part, part.type))
        except BrokenVariantError as error:
            raise CorruptDataFileError(
                f"The variants in the column '{path}' of the data file '{self.file}' cannot be rebuilt: {error}.",
                remedy="Rewrite the file with the engine that wrote it.",
            ) from error
        return MappedColumn(
            name_in_file=field.name, leaves=tuple(field.leaves), convert=convert, can_skip_conversion=False
        )

    def _map_struct(
        self, logical: StructType, physical: StructType, field: FileField, target: pa.StructType, path: str
    ) -> MappedColumn:
        level = Level.of(field.parts)
        columns: list[MappedColumn | None] = []
        for logical_field, physical_field in zip(logical, physical, strict=True):
            part = self.member(physical_field, level, f"{path}.{logical_field.name}")
            if part is None or logical_field.type == VOID:
                columns.append(None)
            else:
                columns.append(
                    self._map_column(logical_field.type, physical_field.type, part, f"{path}.{logical_field.name}")
                )
        members: list[Member] = [
            None if column is None else (column.name_in_file, column.convert) for column in columns
        ]
        names = [None if column is None else column.name_in_file for column in columns]
        return _nested_column(
            field,
            target,
            [column for column in columns if column is not None],
            lambda array: convert_struct(array, target, members),
            has_same_names=names == list(logical.names),
        )


def _nested_column(
    field: FileField, target: pa.DataType, parts: list[MappedColumn], rebuild: Convert, *, has_same_names: bool = True
) -> MappedColumn:
    """Return a nested column. Its conversion calls `rebuild` for arrays that do not have the table's form yet."""
    can_skip_conversion = has_same_names and all(part.can_skip_conversion for part in parts)
    return MappedColumn(
        name_in_file=field.name,
        leaves=tuple(leaf for part in parts for leaf in part.leaves) or (field.leaves.start,),
        convert=lambda array: array if can_skip_conversion and array.type == target else rebuild(storage_of(array)),
        can_skip_conversion=can_skip_conversion,
    )


def _has_id(field: FileField) -> bool:
    return field.field_id is not None or any(_has_id(part) for part in field.parts)
