"""Columns of the types char(n) and varchar(n): stored as strings, with lengths enforced on new rows.

The metadata of the field has the type. A write works as in Spark: blanks at the end of a text that is too long are cut
off, a text that is still too long is refused, and a shorter text of a char(n) is padded with blanks. Lengths count
characters.

A read pads a shorter text of a char(n) too, because other writers (delta-spark 4.4) insert texts unpadded. Columns keep
the type in their metadata, so that Spark pads the texts that they are compared with. Spark: CharVarcharUtils,
ApplyCharTypePadding; Delta: CharVarcharConstraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructField, StructType, holds_char
from deltalite.spark.columns.guards import Guard, Holds, of_each, of_member
from deltalite.spark.columns.names import named
from deltalite.spark.columns.types import bounded_type, char_metadata

_PADS, _AS_STRINGS = "spark.sql.readSideCharPadding", "spark.sql.legacy.charVarcharAsString"
_READ_SETTINGS = {_PADS: "true", _AS_STRINGS: "false"}
_Bounded = spark_types.CharType | spark_types.VarcharType
_Type = spark_types.DataType | None
"""A type that contains texts of bounded length, or None."""
_Change = Callable[[Column, _Bounded], Column | None]
"""A function that changes a text of bounded length, or returns None if the text stays unchanged."""


def fit_texts(rows: DataFrame, schema: StructType, *, where: Column | None = None) -> DataFrame:
    """Cut or pad texts to the lengths of their types, in the rows for which `where` is TRUE (by default all).

    Raises:
        UnsupportedFeatureError: Spark does not know the type in the metadata of a column.
    """
    columns = {}
    for field in schema:
        fitted_value = _changed(named(field.name), field.type, bounded_type(field), _fitted_text)
        if fitted_value is not None:
            value = fitted_value if where is None else F.when(where, fitted_value).otherwise(named(field.name))
            columns[field.name] = value.alias(field.name, metadata=char_metadata(field))
    if not columns:
        return rows
    return rows.select(*[columns.get(name, named(name)) for name in rows.columns])


def pads_on_read(spark: SparkSession) -> bool:
    """Whether the session's settings let Spark pad texts of char(n) when it reads them."""
    is_on = {key: spark.conf.get(key, default) == "true" for key, default in _READ_SETTINGS.items()}
    return is_on[_PADS] and not is_on[_AS_STRINGS]


def pad_texts(column: Column, field: StructField) -> Column | None:
    """Return the column of `field` with its texts of char(n) padded with blanks; None if it has none."""
    if not holds_char(field):
        return None
    try:
        return _changed(column, field.type, bounded_type(field), _padded_text)
    except UnsupportedFeatureError:
        return None  # a text of a type that Spark does not know is read unchanged


def length_guards(schema: StructType) -> list[Guard]:
    """Return a guard for each text of bounded length, at every depth.

    Raises:
        UnsupportedFeatureError: Spark does not know the type in the metadata of a column.
    """
    return [
        Guard(
            condition=holds(named(field.name)),
            rule=f"the column '{path}' has the type {bounded.simpleString()}",
            remedy="Shorten the text in `query`, as with substring().",
        )
        for field in schema
        for path, bounded, holds in _lengths(field.type, bounded_type(field), field.name)
    ]


def _members(data_type: StructType, bounded: _Type) -> Iterator[tuple[StructField, _Type]]:
    """Yield each member with its bounded type, from the type of the struct or from the member's metadata."""
    members = bounded.fields if isinstance(bounded, spark_types.StructType) else []
    types_by_name = {member.name.lower(): member.dataType for member in members}
    for field in data_type:
        yield field, types_by_name.get(field.name.lower()) or bounded_type(field)


def _lengths(data_type: DataType, bounded: _Type, path: str) -> Iterator[tuple[str, _Bounded, Holds]]:
    """Yield the path, the type and the condition of each text of bounded length in a value."""
    match data_type, bounded:
        case _, spark_types.CharType() | spark_types.VarcharType():
            most = bounded.length
            yield path, bounded, lambda text: text.isNull() | (F.length(text) <= most)
        case StructType(), _:
            for field, inner in _members(data_type, bounded):
                for where, kind, holds in _lengths(field.type, inner, f"{path}.{field.name}"):
                    yield where, kind, of_member(field.name, holds)
        case ArrayType(element), _:
            inner = bounded.elementType if isinstance(bounded, spark_types.ArrayType) else None
            for where, kind, holds in _lengths(element, inner, f"{path}.element"):
                yield where, kind, of_each(lambda array: array, holds)
        case MapType(key, value), _:
            keys, values = _of_map(bounded)
            for where, kind, holds in _lengths(key, keys, f"{path}.key"):
                yield where, kind, of_each(F.map_keys, holds)
            for where, kind, holds in _lengths(value, values, f"{path}.value"):
                yield where, kind, of_each(F.map_values, holds)
        case _:
            return


def _changed(value: Column, data_type: DataType, bounded: _Type, change: _Change) -> Column | None:
    """Change the texts of bounded length in a value; return None if all of them stay unchanged."""
    match data_type, bounded:
        case _, spark_types.CharType() | spark_types.VarcharType():
            return change(value, bounded)
        case StructType(), _:
            members = {
                field.name: _changed(value.getField(field.name), field.type, inner, change)
                for field, inner in _members(data_type, bounded)
            }
            if all(member is None for member in members.values()):
                return None
            new_members = [(value.getField(n) if member is None else member).alias(n) for n, member in members.items()]
            return F.when(value.isNotNull(), F.struct(*new_members))
        case ArrayType(element), _:
            inner = bounded.elementType if isinstance(bounded, spark_types.ArrayType) else None
            return _changed_items(value, element, inner, change)
        case MapType(key, item), _:
            inner_key, inner_item = _of_map(bounded)
            keys = _changed_items(F.map_keys(value), key, inner_key, change)
            items = _changed_items(F.map_values(value), item, inner_item, change)
            if keys is None and items is None:
                return None
            return F.map_from_arrays(
                F.map_keys(value) if keys is None else keys, F.map_values(value) if items is None else items
            )
        case _:
            return None


def _changed_items(array: Column, element: DataType, bounded: _Type, change: _Change) -> Column | None:
    if _changed(array, element, bounded, change) is None:
        return None

    def change_item(item: Column) -> Column:
        changed = _changed(item, element, bounded, change)
        return item if changed is None else changed

    return F.transform(array, change_item)


def _fitted_text(text: Column, bounded: _Bounded) -> Column:
    """Cut excess trailing blanks off a text, and pad a text of a char(n)."""
    most = bounded.length
    fits_without_blanks = (F.length(text) > most) & (F.length(F.rtrim(text)) <= most)
    fitted_text = F.when(fits_without_blanks, F.substring(text, 1, most))
    if isinstance(bounded, spark_types.CharType):
        fitted_text = fitted_text.when(F.length(text) < most, F.rpad(text, most, " "))
    return fitted_text.otherwise(text)


def _padded_text(text: Column, bounded: _Bounded) -> Column | None:
    """Pad a text of a char(n) with blanks."""
    if isinstance(bounded, spark_types.VarcharType):
        return None
    return F.when(F.length(text) < bounded.length, F.rpad(text, bounded.length, " ")).otherwise(text)


def _of_map(bounded: _Type) -> tuple[_Type, _Type]:
    return (bounded.keyType, bounded.valueType) if isinstance(bounded, spark_types.MapType) else (None, None)
