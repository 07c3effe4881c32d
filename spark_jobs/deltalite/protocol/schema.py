"""Delta schemas as values, and their JSON.

The types are those of Spark SQL. The metadata of a field is preserved, including unknown keys. The comparison of names
ignores case, as the protocol requires; names keep their case. Protocol: Schema Serialization Format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalite.errors import CorruptLogError, UnsupportedFeatureError

PRIMITIVES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "void",
    }
)
MAX_PRECISION = 38
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key that holds the SQL type of char and varchar. `StructField.type` has `string` in their place."""
_CHAR_TYPE = re.compile(r"\bchar\s*\(", re.IGNORECASE)
_BOUNDED_TEXT = re.compile(r"(?:char|varchar)\(\s*\d{1,9}\s*\)", re.ASCII)
# Other names of types that Spark accepts.
_ALIASES = {"null": "void", "timestamp_ltz": "timestamp"}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)", re.ASCII)
# No engine writes deeper types, and they could cause a RecursionError.
_MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters. `name` is its name in the schema JSON."""

    name: str

    def __str__(self) -> str:
        return _SQL_NAMES.get(self.name, self.name)


@dataclass(frozen=True, slots=True)
class DecimalType:
    """`decimal(precision,scale)`, precision 1 to 38."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; keys are never null."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A named column, or a named member of a struct."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StructType:
    """An ordered list of fields. Names are unique without regard to case."""

    fields: tuple[StructField, ...]
    # The index of each name in lower case, because callers look up thousands of columns one by one.
    _indices: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        indices: dict[str, int] = {}
        for index, member in enumerate(self.fields):
            if indices.setdefault(member.name.lower(), index) != index:
                raise CorruptLogError(
                    f"The schema has two columns called '{member.name.lower()}' (case does not count).",
                    remedy="Rename one of them.",
                )
        object.__setattr__(self, "_indices", indices)

    def __str__(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.type}' for f in self.fields)}>"

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def find(self, name: str) -> StructField | None:
        """Return the field of this name, without regard to case; None if no field matches."""
        index = self.index_of(name)
        return None if index is None else self.fields[index]

    def index_of(self, name: str) -> int | None:
        """Return the index in `fields` of the field that `find` returns; None if no field matches."""
        return self._indices.get(name.lower())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order."""
        return tuple(f.name for f in self.fields)


DataType = PrimitiveType | DecimalType | ArrayType | MapType | StructType


def member_at(schema: StructType, path: Sequence[str]) -> tuple[tuple[str, ...], DataType] | None:
    """Return the names of a path as the schema spells them, and its type; None if the path does not exist."""
    data_type: DataType = schema
    names = []
    for name in path:
        member = data_type.find(name) if isinstance(data_type, StructType) else None
        if member is None:
            return None
        names.append(member.name)
        data_type = member.type
    return tuple(names), data_type


_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def parse_schema(text: str) -> StructType:
    """Parse the `schemaString` of a `metaData` action.

    Raises:
        CorruptLogError: the text is not a valid schema.
        UnsupportedFeatureError: the schema has an unknown type.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptLogError(
            f"The table's schema is not JSON: {error}.", remedy="Repair the table's metadata."
        ) from error
    schema = parse_type(value)
    if not isinstance(schema, StructType):
        raise CorruptLogError("The table's schema is not a struct.", remedy="Repair the table's metadata.")
    return schema


def parse_type(value: Any, levels: int = _MAX_LEVELS) -> DataType:  # noqa: C901  one branch per kind
    """Parse a type from its JSON value, with at most `levels` nested types.

    Raises:
        CorruptLogError, UnsupportedFeatureError: see `parse_schema`.
    """
    if not levels:
        raise CorruptLogError(
            f"The table's schema is nested more than {_MAX_LEVELS} levels deep.",
            remedy="Repair the table's metadata.",
        )
    if isinstance(value, str):
        decimal = _DECIMAL.fullmatch(value)
        if decimal:
            precision, scale = int(decimal[1]), int(decimal[2])
            if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
                raise _malformed_type_error(value)
            return DecimalType(precision, scale)
        if value == "decimal":
            return DecimalType(10, 0)
        if _BOUNDED_TEXT.fullmatch(value):
            return PrimitiveType("string")
        name = _ALIASES.get(value, value)
        if name in PRIMITIVES:
            return PrimitiveType(name)
        raise UnsupportedFeatureError(
            f"The table's schema has the type '{value}', which this release does not read.",
            remedy="Read the table with an engine that supports it.",
        )
    try:
        match value["type"]:
            case "udt":  # a Spark type that is stored as another type, such as an MLlib vector as a struct
                return parse_type(value["sqlType"], levels - 1)
            case "struct":
                return StructType(tuple(_parse_field(f, levels - 1) for f in value["fields"]))
            case "array":
                return ArrayType(parse_type(value["elementType"], levels - 1), bool(value["containsNull"]))
            case "map":
                return MapType(
                    parse_type(value["keyType"], levels - 1),
                    parse_type(value["valueType"], levels - 1),
                    bool(value["valueContainsNull"]),
                )
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed_type_error(value) from error
    raise _malformed_type_error(value)


def _malformed_type_error(value: Any) -> CorruptLogError:
    return CorruptLogError(
        f"The table's schema has a malformed type: {value!r:.120}.", remedy="Repair the table's metadata."
    )


def _parse_field(value: Mapping[str, Any], levels: int) -> StructField:
    name = value["name"]
    if not isinstance(name, str):
        raise TypeError(name)
    name.encode()  # raises a ValueError for half of a surrogate pair, which JSON allows
    data_type, metadata = parse_type(value["type"], levels), dict(value.get("metadata") or {})
    if _has_bounded_text(value["type"]):
        metadata.setdefault(CHAR_VARCHAR, _sql_type(value["type"]))
    return StructField(name, data_type, bool(value.get("nullable", True)), metadata)


def _has_bounded_text(value: Any) -> bool:
    """Whether a valid JSON type is char or varchar, alone or in arrays and maps, but not in structs."""
    if isinstance(value, str):
        return _BOUNDED_TEXT.fullmatch(value) is not None
    nested_keys = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(value["type"], ())
    return any(_has_bounded_text(value[key]) for key in nested_keys)


def _sql_type(value: Any) -> str:
    """Return the SQL text of a JSON type with char or varchar; a nested struct becomes a placeholder."""
    if isinstance(value, str):
        return value if _BOUNDED_TEXT.fullmatch(value) else str(parse_type(value))
    match value["type"]:
        case "array":
            return f"array<{_sql_type(value['elementType'])}>"
        case "map":
            return f"map<{_sql_type(value['keyType'])},{_sql_type(value['valueType'])}>"
        case _:
            return "string"


def type_to_json(data_type: DataType) -> Any:
    """Return the JSON value of a type; the inverse of `parse_type`."""
    match data_type:
        case PrimitiveType(name):
            return name
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": type_to_json(element), "containsNull": contains_null}
        case MapType(key, item, item_contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(item),
                "valueContainsNull": item_contains_null,
            }
        case StructType(members):
            return {
                "type": "struct",
                "fields": [
                    {"name": f.name, "type": type_to_json(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
                    for f in members
                ],
            }


def schema_to_json(schema: StructType) -> str:
    """Return the `schemaString` of a `metaData` action."""
    return json.dumps(type_to_json(schema), separators=(",", ":"))


def leaves(schema: StructType, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield each leaf column with its path, depth first; arrays and maps are leaves, structs are not."""
    for column in schema:
        path = (*prefix, column.name)
        if isinstance(column.type, StructType):
            yield from leaves(column.type, path)
        else:
            yield path, column


def contains_type(data_type: DataType, name: str) -> bool:
    """Whether the primitive type `name` occurs anywhere in `data_type`."""
    match data_type:
        case PrimitiveType(type_name):
            return type_name == name
        case DecimalType():
            return False
        case ArrayType(element):
            return contains_type(element, name)
        case MapType(key, value):
            return contains_type(key, name) or contains_type(value, name)
        case StructType(members):
            return any(contains_type(f.type, name) for f in members)


def holds_char(field: StructField) -> bool:
    """Whether a column has char(n) in its type at any depth, according to the metadata of its fields."""
    texts = (f.metadata.get(CHAR_VARCHAR) for f in (field, *all_fields(field.type)))
    return any(text is not None and _CHAR_TYPE.search(str(text)) is not None for text in texts)


def all_fields(data_type: DataType) -> Iterator[StructField]:
    """Yield each field at every depth, also in arrays and maps; a field comes before its members."""
    match data_type:
        case StructType(members):
            for member in members:
                yield member
                yield from all_fields(member.type)
        case ArrayType(element):
            yield from all_fields(element)
        case MapType(key, value):
            yield from all_fields(key)
            yield from all_fields(value)
        case PrimitiveType() | DecimalType():
            return


def without_nullability_and_metadata(data_type: DataType) -> DataType:
    """Return the type with only the names and types of its fields: each field is nullable and has no metadata."""
    match data_type:
        case StructType(fields):
            return StructType(tuple(StructField(f.name, without_nullability_and_metadata(f.type)) for f in fields))
        case ArrayType(element):
            return ArrayType(without_nullability_and_metadata(element))
        case MapType(key, value):
            return MapType(without_nullability_and_metadata(key), without_nullability_and_metadata(value))
        case PrimitiveType() | DecimalType():
            return data_type
