"""The columns of a schema as rows of a report: a row for each column, and one for each field of a struct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltalite.columnar.predicates.predicate import Path
from deltalite.protocol.schema import StructField, StructType

_RULE_NAMES = {
    "delta.generationExpression": "generated",
    "CURRENT_DEFAULT": "default",
    "delta.identity.start": "identity",
    "delta.invariants": "invariant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRow:
    """A column, or a field of a struct.

    - `depth`: the number of structs around the field; 0 for a column.
    - `type_text`: the type; `struct` for a struct, because its fields have rows.
    - `partition_index`: the position among the partition columns, from 1; None for other columns.
    - `rules`: default, generated value, identity and invariant, such as `default: 0`.
    """

    name: str
    depth: int
    type_text: str
    nullable: bool
    partition_index: int | None
    comment: str
    rules: tuple[str, ...]


def column_fields(schema: StructType, prefix: Path = ()) -> Iterator[tuple[Path, StructField]]:
    """Yield the path and the field of each row of `column_rows`, in the same order."""
    for field in schema:
        path = (*prefix, field.name)
        yield path, field
        if isinstance(field.type, StructType):
            yield from column_fields(field.type, path)


def column_rows(schema: StructType, partition_columns: Sequence[str]) -> Iterator[ColumnRow]:
    """Yield the rows of a schema, in the order of the table."""
    partition_indexes = {name.lower(): index for index, name in enumerate(partition_columns, 1)}
    for path, field in column_fields(schema):
        depth = len(path) - 1
        yield ColumnRow(
            name=field.name,
            depth=depth,
            type_text="struct" if isinstance(field.type, StructType) else str(field.type),
            nullable=field.nullable,
            partition_index=None if depth else partition_indexes.get(field.name.lower()),
            comment=str(field.metadata.get("comment") or ""),
            rules=tuple(f"{name}: {field.metadata[key]}" for key, name in _RULE_NAMES.items() if key in field.metadata),
        )
