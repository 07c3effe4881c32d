"""Values that Spark can compare and order, from values of any type.

Spark compares neither maps nor variants. A map becomes the list of its entries in the order of the keys, and a variant
becomes its JSON text. Equal values stay equal. Different values stay different, except variants with the same JSON
text, such as a date and its text.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructType

_VARIANT = PrimitiveType("variant")


def comparable(value: Column, data_type: DataType) -> Column:
    """Return a value that is equal for equal values of `data_type`, and that Spark can compare and order."""
    if not _holds_incomparable(data_type):
        return value
    match data_type:
        case MapType(key, item):
            entries = F.transform(
                F.map_entries(value),
                lambda entry: F.struct(
                    comparable(entry.getField("key"), key).alias("key"),
                    comparable(entry.getField("value"), item).alias("value"),
                ),
            )
            return F.array_sort(entries)
        case ArrayType(element):
            return F.transform(value, lambda item: comparable(item, element))
        case StructType(fields):
            members = [comparable(value.getField(field.name), field.type).alias(field.name) for field in fields]
            return F.when(value.isNotNull(), F.struct(*members))
        case _:
            return F.to_json(value)


def _holds_incomparable(data_type: DataType) -> bool:
    match data_type:
        case MapType():
            return True
        case ArrayType(element):
            return _holds_incomparable(element)
        case StructType(fields):
            return any(_holds_incomparable(field.type) for field in fields)
        case _:
            return data_type == _VARIANT
