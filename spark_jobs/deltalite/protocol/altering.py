"""The schema of a table after a task has declared its columns.

The declaration adds and changes columns, and never removes a column. Columns are matched by name without regard to
case, and the table's spelling and order stay. For a column that the table has:

- A wider type replaces the type, if the table has type widening. Any other change of a simple type is an error.
- NOT NULL is added or removed, as declared.
- A declared comment or default replaces the comment or default in the table. Otherwise these stay.
- These cannot change: the expression of a generated column, the series of an identity column, and the length of a char
  or varchar column.

delta-spark: AlterTableAddColumnsDeltaCommand, AlterTableChangeColumnDeltaCommand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.column_rules import DEFAULT, GENERATION
from deltalite.protocol.identity_columns import ALLOW_EXPLICIT, START, STEP
from deltalite.protocol.schema import CHAR_VARCHAR, ArrayType, DataType, MapType, StructField, StructType
from deltalite.protocol.type_changes import is_widening
from deltalite.protocol.type_widening import with_wider_type

_UNCHANGEABLE_KEYS = (GENERATION, START, STEP, ALLOW_EXPLICIT)
_REPLACEABLE_KEYS = ("comment", DEFAULT)


def altered_schema(table: StructType, declared: StructType, *, widens: bool, has_rows: bool) -> StructType:
    """Return the table's schema after the declaration.

    Args:
        table: the table's schema.
        declared: the declared columns.
        widens: whether the table has type widening (`type_widening.is_enabled`).
        has_rows: whether the table has data files. New columns are then NULL in the existing rows.

    Raises:
        SchemaMismatchError: a declared column contradicts the table's column, or a new column cannot be NULL in the
            existing rows; the message names the column.
    """
    return _Alteration(widens=widens, has_rows=has_rows).struct(table, declared, ())


def is_filled(field: StructField) -> bool:
    """Whether the table fills the column if rows lack it: a generated, default or IDENTITY column."""
    return any(key in field.metadata for key in (*_UNCHANGEABLE_KEYS, DEFAULT))


def changed_columns(before: StructType, after: StructType) -> tuple[str, ...]:
    """Return the names of the top-level columns that both schemas have and that differ."""
    return tuple(f.name for f in after if (old_field := before.find(f.name)) is not None and old_field != f)


def newly_required_columns(before: StructType, after: StructType) -> frozenset[str]:
    """Return the names of the top-level columns that are NOT NULL in `after` only, or that have such a member.

    A new column that is NOT NULL counts too.
    """
    columns = ((f, before.find(f.name)) for f in after)
    return frozenset(
        f.name for f, old_field in columns if set(_required_paths(f, ())) - set(_required_paths(old_field, ()))
    )


def _required_paths(field: StructField | None, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each NOT NULL field among the field itself and its members; `path` leads to the parent."""
    if field is None:
        return
    if not field.nullable:
        yield (*path, field.name)
    for struct_path, struct in _structs(field.type, (*path, field.name)):
        for member in struct:
            yield from _required_paths(member, struct_path)


def _structs(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructType]]:
    """Yield the outermost structs in a type with their paths."""
    match data_type:
        case StructType():
            yield path, data_type
        case ArrayType(element):
            yield from _structs(element, (*path, "element"))
        case MapType(key, value):
            yield from _structs(key, (*path, "key"))
            yield from _structs(value, (*path, "value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alteration:
    """The conditions of `altered_schema`. Each method returns a part of the new schema; `path` leads to that part."""

    widens: bool
    has_rows: bool

    def struct(self, table: StructType, declared: StructType, path: tuple[str, ...]) -> StructType:
        table_fields = (self._field(f, declared.find(f.name), (*path, f.name)) for f in table)
        new_fields = (self._new_field(f, (*path, f.name)) for f in declared if table.find(f.name) is None)
        return StructType((*table_fields, *new_fields))

    def _field(self, field: StructField, declared: StructField | None, path: tuple[str, ...]) -> StructField:
        if declared is None:
            return field
        _check_unchangeable(field, declared, path)
        new_metadata = {key: declared.metadata[key] for key in _REPLACEABLE_KEYS if key in declared.metadata}
        new_type = self._type(field.type, declared.type, path)
        new_field = replace(field, nullable=declared.nullable, metadata={**field.metadata, **new_metadata})
        return with_wider_type(new_field, new_type)

    def _type(self, table: DataType, declared: DataType, path: tuple[str, ...]) -> DataType:
        match table, declared:
            case StructType(), StructType():
                return self.struct(table, declared, path)
            case ArrayType(element, contains_null), ArrayType(new_element):
                return ArrayType(self._type(element, new_element, (*path, "element")), contains_null)
            case MapType(key, value, contains_null), MapType(new_key, new_value):
                key, value = (
                    self._type(key, new_key, (*path, "key")),
                    self._type(value, new_value, (*path, "value")),
                )
                return MapType(key, value, contains_null)
            case _ if table == declared:
                return table
            case _ if self.widens and is_widening(table, declared):
                return declared
            case _:
                raise SchemaMismatchError(
                    f"The column '{'.'.join(path)}' is {table} in the table and {declared} in `schema`.",
                    remedy=_remedy(table, declared),
                )

    def _new_field(self, field: StructField, path: tuple[str, ...]) -> StructField:
        if not self.has_rows:
            return field
        name = ".".join(path)
        if not field.nullable:
            raise SchemaMismatchError(
                f"The new column '{name}' is NOT NULL in `schema`, but it would be NULL in existing rows.",
                remedy="Declare it without NOT NULL, fill it with an update, then declare NOT NULL.",
            )
        if DEFAULT in field.metadata:
            raise SchemaMismatchError(
                f"The new column '{name}' has a DEFAULT in `schema`, but it would be NULL in existing rows.",
                remedy="Declare it without DEFAULT and fill it with an update. A later task can declare the DEFAULT.",
            )
        if is_filled(field):
            raise SchemaMismatchError(
                f"The new column '{name}' is generated in `schema`, but it would be NULL in existing rows.",
                remedy="Write the rows to a new table that has the column from the beginning.",
            )
        return field


def _remedy(table: DataType, declared: DataType) -> str:
    if is_widening(table, declared):
        return "Set the property delta.enableTypeWidening to 'true', which lets the column widen."
    return f"Declare it as {table}, or write the rows to a new table."


def _check_unchangeable(field: StructField, declared: StructField, path: tuple[str, ...]) -> None:
    """Raise `SchemaMismatchError` if the declaration changes the expression, identity or text length of a column."""
    name = ".".join(path)
    is_declared = any(key in declared.metadata for key in _UNCHANGEABLE_KEYS)
    if is_declared and any(declared.metadata.get(key) != field.metadata.get(key) for key in _UNCHANGEABLE_KEYS):
        raise SchemaMismatchError(
            f"The column '{name}' is {_generation(field)} in the table and {_generation(declared)} in `schema`.",
            remedy="Declare it as it is in the table, or write the rows to a new table.",
        )
    old_type, new_type = (f.metadata.get(CHAR_VARCHAR, str(f.type)) for f in (field, declared))
    if (CHAR_VARCHAR in field.metadata or CHAR_VARCHAR in declared.metadata) and old_type != new_type:
        raise SchemaMismatchError(
            f"The column '{name}' is {old_type} in the table and {new_type} in `schema`.",
            remedy=f"Declare it as {old_type}.",
        )


def _generation(field: StructField) -> str:
    metadata = field.metadata
    if GENERATION in metadata:
        return f"generated as ({metadata[GENERATION]})"
    if START in metadata:
        kind = "BY DEFAULT" if metadata.get(ALLOW_EXPLICIT) else "ALWAYS"
        return f"generated {kind} as an identity from {metadata[START]} in steps of {metadata.get(STEP)}"
    return "not generated"
