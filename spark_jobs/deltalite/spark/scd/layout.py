"""The columns of an SCD table, and their roles.

A table of type 2 has these columns:

- the keys, and the tracked and untracked columns of the source. A new value of a tracked column makes a new row.
- `valid_from`: the sequence at which the row becomes valid.
- `valid_to`: the sequence at which the row ceases to be valid.
- `current`: whether the row is the newest one of its key, and the key is not deleted.
- `events`: the source rows of this history row, or null if the other columns contain them. An event has its sequence,
  whether it deletes the key, and the untracked values.

A table of type 1 has one row for each key. `valid_from` is the sequence of its newest source row, and `current` is
false for a deleted key. Its columns are all tracked.

Columns that the table computes (generated, default and IDENTITY columns) have no role, unless the source has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError, SchemaMismatchError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    without_nullability_and_metadata,
)
from deltalite.protocol.schema_evolution import new_table_schema, with_new_columns
from deltalite.requests import ScdRequest
from deltalite.requests.scd import NEWEST_ROWS
from deltalite.spark.columns.names import fields_named
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.sql import Expressions, delete_condition, no_rows_of_source, request_error_builder

_TYPES_WITHOUT_ORDER = frozenset({"boolean", "binary", "variant", "void"})
EVENT_SEQUENCE, EVENT_DELETED, EVENT_VALUES = "sequence", "deleted", "values"
"""The members of an event in the column `events`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of an SCD table for one request.

    - `keys`, `tracked`, `untracked`: the columns with values of the source, in the table's spelling.
    - `schema`: these columns in the table's order, then the added columns.
    - `source`: the columns of the source.
    - `sequence`, `is_delete`: expressions on the source's columns, with the alias `source`.
    """

    keys: tuple[str, ...]
    tracked: tuple[str, ...]
    untracked: tuple[str, ...]
    schema: StructType
    source: StructType
    sequence: Column
    sequence_type: DataType
    is_delete: Column
    valid_from: str
    valid_to: str
    current: str
    events: str

    @property
    def values(self) -> StructType:
        """The columns with values of the source."""
        roles = {*self.keys, *self.tracked, *self.untracked}
        return StructType(tuple(field for field in self.schema if field.name in roles))

    @property
    def stored_sequence_type(self) -> DataType:
        """The type of `valid_from`."""
        return self._type_of(self.valid_from)

    @property
    def events_type(self) -> DataType:
        """The type of the column `events`."""
        return self._type_of(self.events)

    def struct_of(self, names: Sequence[str]) -> StructType:
        """Return some columns as a type. All fields are nullable, at every depth, as in a new table."""
        fields = {field.name: field for field in self.schema}
        return new_table_schema(StructType(tuple(fields[name] for name in names)))

    def new_row(self, added_values: Mapping[str, Column]) -> Column:
        """Return a row as a struct: the values in `key`, `tracked` and `untracked`, and those of the added columns."""
        structs = {"key": self.keys, "tracked": self.tracked, "untracked": self.untracked}
        columns = {name: F.col(struct)[name] for struct, names in structs.items() for name in names}
        return F.struct(*[{**columns, **added_values}[name].alias(name) for name in self.schema.names])

    def _type_of(self, name: str) -> DataType:
        return next(field.type for field in self.schema if field.name == name)


def layout_of(
    request: ScdRequest, source: DataFrame, *, base: StructType | None, rules: ColumnRules, widens: bool = False
) -> Layout:
    """Resolve the columns and expressions of a request.

    Args:
        request: the request.
        source: rows of the source, of which only the schema matters.
        base: the columns of the table, None if the table does not exist.
        rules: the rules of the table.
        widens: whether, with `merge_schema`, a column gets the wider type of the source.

    Raises:
        InvalidRequestError: a column does not exist, an expression is wrong, or the table is not a history table.
        SchemaMismatchError: the source has a column that the table lacks, lacks a column of the table, or has a new
            column of the type void.
    """
    source_schema = from_spark(source.schema)
    excluded = {name.lower() for name in _names_in(source_schema, request.exclude, "exclude")}
    new_values = StructType(tuple(field for field in source_schema if field.name.lower() not in excluded))
    _refuse_added_columns(request, new_values)
    _names_in(new_values, request.keys, "keys")  # refuses a key that the source lacks
    expressions = Expressions.of_request(no_rows_of_source(source))
    sequence, sequence_type, sequence_columns = _sequence(request, expressions)
    values = _value_fields(request, new_values, base, rules, widens=widens)
    keys = _names_in(values, request.keys, "keys")
    tracked = _tracked(request, values, keys, sequence_columns)
    untracked = tuple(name for name in values.names if name not in {*keys, *tracked})
    added = tuple(_added_fields(request, values, untracked, sequence_type, base))
    by_name = {field.name.lower(): field.name for field in added}
    return Layout(
        keys=keys,
        tracked=tracked,
        untracked=untracked,
        schema=StructType((*values, *added)),
        source=source_schema,
        sequence=sequence,
        sequence_type=sequence_type,
        is_delete=delete_condition(expressions, request.delete_when),
        valid_from=by_name.get(request.valid_from.lower(), request.valid_from),
        valid_to=by_name.get(request.valid_to.lower(), request.valid_to),
        current=by_name.get(request.current.lower(), request.current),
        events=by_name.get(request.events.lower(), request.events),
    )


def _names_in(schema: StructType, names: Sequence[str], parameter: str) -> tuple[str, ...]:
    """Return the names as the schema spells them, or raise `InvalidRequestError` if it lacks one of them."""
    fields = fields_named(
        schema,
        names,
        problem=lambda name: f"{parameter} names {name!r}, which is not a column of the source.",
        remedy="The columns are",
    )
    return tuple(field.name for field in fields)


def _refuse_added_columns(request: ScdRequest, values: StructType) -> None:
    for name in request.added_columns:
        if values.find(name) is not None:
            raise InvalidRequestError(
                f"The source has the column '{name}', which the operation adds to the table.",
                remedy="Name it in `exclude`, or give the added column another name.",
            )


def _sequence(request: ScdRequest, expressions: Expressions) -> tuple[Column, DataType, frozenset[str]]:
    """Return the expression, its type, and the columns that it reads, in lower case."""
    text = request.sequence_by
    error_for = request_error_builder("sequence", text, parameter="sequence_by")
    column, data_type, columns = expressions.deterministic_value(text, error_for)
    has_order = isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name not in _TYPES_WITHOUT_ORDER
    )
    if not has_order:
        raise error_for(f"it is {data_type}, which has no useful order.")
    return column, data_type, columns


def _value_fields(
    request: ScdRequest, new_values: StructType, base: StructType | None, rules: ColumnRules, *, widens: bool
) -> StructType:
    """Return the columns with values of the source, as the table has them after the operation."""
    if base is None:
        return new_table_schema(new_values)
    added_names = {name.lower() for name in request.added_columns}
    table = StructType(tuple(field for field in base if field.name.lower() not in added_names))
    if len(table.fields) + len(request.added_columns) > len(base.fields):
        missing = [name for name in request.added_columns if base.find(name) is None]
        raise InvalidRequestError(
            f"{request.table} is not a history table of this request: it has no column "
            f"{' and no column '.join(missing)}.",
            remedy="Choose a new address, or name the columns with valid_from, valid_to, current and events.",
        )
    unknown = [field.name for field in new_values if table.find(field.name) is None]
    if unknown and not request.merge_schema:
        raise SchemaMismatchError(
            f"The source has columns that {request.table} does not have: {', '.join(unknown)}.",
            remedy="Set merge_schema=True to add them, or name them in `exclude`.",
        )
    missing = [f.name for f in table if new_values.find(f.name) is None and f.name not in rules.filled_columns]
    if missing and not request.merge_schema:
        raise SchemaMismatchError(
            f"The source has no column {' and no column '.join(missing)}, which {request.table} has.",
            remedy="Add the column in `query`, or set merge_schema=True to write NULL.",
        )
    evolved = with_new_columns(table, new_values, widens=widens) if request.merge_schema else table
    computed_names = {name for name in rules.filled_columns if new_values.find(name) is None}
    return StructType(tuple(field for field in evolved if field.name not in computed_names))


def _tracked(
    request: ScdRequest, values: StructType, keys: tuple[str, ...], sequence_columns: frozenset[str]
) -> tuple[str, ...]:
    if request.scd_type == NEWEST_ROWS:
        return tuple(name for name in values.names if name not in keys)
    if request.track is not None:
        tracked = set(_names_in(values, request.track, "track"))
        return tuple(name for name in values.names if name in tracked)
    return tuple(name for name in values.names if name not in keys and name.lower() not in sequence_columns)


def _added_fields(
    request: ScdRequest,
    values: StructType,
    untracked: tuple[str, ...],
    sequence_type: DataType,
    base: StructType | None,
) -> Iterator[StructField]:
    """Yield the added columns, with the types that the table has or gets."""
    valid_from = None if base is None else base.find(request.valid_from)
    stored_type = sequence_type if valid_from is None else valid_from.type
    event_fields = [StructField(EVENT_SEQUENCE, stored_type), StructField(EVENT_DELETED, PrimitiveType("boolean"))]
    if untracked:
        value_types = new_table_schema(StructType(tuple(field for field in values if field.name in untracked)))
        event_fields.append(StructField(EVENT_VALUES, value_types))
    types: dict[str, DataType] = {
        request.valid_from: stored_type,
        request.valid_to: stored_type,
        request.current: PrimitiveType("boolean"),
        request.events: ArrayType(StructType(tuple(event_fields))),
    }
    for name in request.added_columns:
        field = None if base is None else base.find(name)
        if field is not None and not _may_hold(request, base, name, field.type, types[name]):
            raise InvalidRequestError(
                f"{request.table} is not a history table of this request: the column '{field.name}' is {field.type}, "
                f"and the request needs {types[name]}.",
                remedy="Use the same `track`, `sequence_by` and scd_type in each run, or choose a new address.",
            )
        yield StructField(name if field is None else field.name, types[name])


def _may_hold(
    request: ScdRequest, base: StructType | None, name: str, table_type: DataType, needed_type: DataType
) -> bool:
    """Whether the table's column `name` can hold the values that the request adds.

    With `merge_schema`, `events` may lack the untracked columns that are new in the table.
    """
    if name == request.events and request.merge_schema and base is not None:
        if _event_members(table_type) is None:
            return False
        table_untracked = _event_members(table_type) or ()
        needed_untracked = [column for column in _event_members(needed_type) or () if base.find(column) is not None]
        return sorted(map(str.lower, table_untracked)) == sorted(map(str.lower, needed_untracked))
    return without_nullability_and_metadata(table_type) == without_nullability_and_metadata(needed_type)


def _event_members(data_type: DataType) -> tuple[str, ...] | None:
    """Return the names of the untracked columns in the type of `events`, None for a type of another form."""
    if not isinstance(data_type, ArrayType) or not isinstance(data_type.element, StructType):
        return None
    values = data_type.element.find(EVENT_VALUES)
    if values is None:
        return ()
    return values.type.names if isinstance(values.type, StructType) else None
