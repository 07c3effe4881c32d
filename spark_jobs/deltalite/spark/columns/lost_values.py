"""Whether the conversion of texts in a value would lose something, so that `assign_value` would fail."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType
from deltalite.spark.columns.text_values import text_value

_STRING = PrimitiveType("string")


def loses_value(value: Column, from_type: DataType, to_type: DataType) -> Column | None:
    """Return a boolean column that is true if a text in `value` does not convert to its type in `to_type`.

    The column is never null. The result is None if `from_type` has no text to convert. The keys of maps do not count,
    because `protocol.source_schemas.with_types_as_text` leaves them as they are.
    """
    match from_type, to_type:
        case StructType(), StructType():
            members = (
                loses_value(value.getField(field.name), field.type, to_field.type)
                for field in from_type
                if (to_field := to_type.find(field.name)) is not None
            )
            return any_of([member for member in members if member is not None])
        case ArrayType(element), ArrayType(to_element):
            return _any_item(value, element, to_element)
        case MapType(_, item), MapType(_, to_item):
            return _any_item(F.map_values(value), item, to_item)
        case PrimitiveType(), (PrimitiveType() | DecimalType()) if from_type == _STRING and to_type != _STRING:
            return value.isNotNull() & text_value(value, to_type).isNull()
        case _:
            return None


def any_of(conditions: list[Column]) -> Column | None:
    """Return whether one of the conditions is true; None without a condition."""
    return F.array_contains(F.array(*conditions), F.lit(True)) if conditions else None


def _any_item(items: Column, from_type: DataType, to_type: DataType) -> Column | None:
    """Return whether an item of an array would lose something."""
    if loses_value(F.lit(None), from_type, to_type) is None:
        return None

    def loses_item(item: Column) -> Column:
        condition = loses_value(item, from_type, to_type)
        return F.lit(False) if condition is None else condition

    return F.coalesce(F.exists(items, loses_item), F.lit(False))
