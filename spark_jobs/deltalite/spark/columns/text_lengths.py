"""Columns of the types char(n) and varchar(n): stored as strings, with lengths enforced on new rows.

The metadata of the field has the type. Lengths count characters. A write works as in Spark:

- If a text is too long, blanks at its end are cut off. A text that is still too long is refused.
- A shorter text of a char(n) is padded with blanks.

A read pads a shorter text of a char(n) too, because other writers (delta-spark 4.4) insert texts unpadded. Columns keep
the type in their metadata, so that Spark pads texts that a query compares with them. Spark: CharVarcharUtils,
ApplyCharTypePadding; Delta: CharVarcharConstraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructField, StructType, holds_char
from deltalite.spark.columns.guards import ColumnFunction, Guard, of_each, of_member
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import bounded_type, char_metadata

_PADDING_KEY, _AS_STRINGS_KEY = "spark.sql.readSideCharPadding", "spark.sql.legacy.charVarcharAsString"
_DEFAULTS = {_PADDING_KEY: "true", _AS_STRINGS_KEY: "false"}
_Bounded = spark_types.CharType | spark_types.VarcharType
_MaybeBounded = spark_types.DataType | None
"""A type that contains texts of bounded length, or None."""
_Change = Callable[[Column, _Bounded], Column | None]
"""A function that changes a text of bounded length, or returns None if the text stays unchanged."""


def fit_texts(rows: DataFrame, schema: StructType, *, where: Column | None = None) -> DataFrame:
    """Return the rows, with their texts cut or padded to the lengths of the types.

    With `where`, texts change only in the rows for which it is TRUE.

    Raises:
        UnsupportedFeatureError: Spark does not know the type in the metadata of a column.
    """
    columns = {}
    for field in schema:
        fitted_value = _change_texts(column_named(field.name), field.type, bounded_type(field), _fitted_text)
        if fitted_value is not None:
            value = fitted_value if where is None else F.when(where, fitted_value).otherwise(column_named(field.name))
            columns[field.name] = value.alias(field.name, metadata=char_metadata(field))
    if not columns:
        return rows
    return rows.select(*[columns.get(name, column_named(name)) for name in rows.columns])


def fit_text(column: Column, field: StructField) -> Column:
    """Return a value of `field`, with its texts cut or padded to the lengths of the types.

    Raises:
        UnsupportedFeatureError: Spark does not know the type in the metadata of the column.
    """
    fitted_value = _change_texts(column, field.type, bounded_type(field), _fitted_text)
    return column if fitted_value is None else fitted_value


def pads_on_read(spark: SparkSession) -> bool:
    """Whether the session's settings let Spark pad texts of char(n) when it reads them."""
    is_on = {key: spark.conf.get(key, default) == "true" for key, default in _DEFAULTS.items()}
    return is_on[_PADDING_KEY] and not is_on[_AS_STRINGS_KEY]


def pad_texts(column: Column, field: StructField) -> Column | None:
    """Return the column of `field` with its texts of char(n) padded with blanks.

    Returns None without such texts, or if Spark does not know their type.
    """
    if not holds_char(field):
        return None
    try:
        return _change_texts(column, field.type, bounded_type(field), _padded_text)
    except UnsupportedFeatureError:
        return None  # a text of a type that Spark does not know is read unchanged


def length_guards(schema: StructType) -> list[Guard]:
    """Return a guard for each text of bounded length, at every depth.

    Raises:
        UnsupportedFeatureError: Spark does not know the type in the metadata of a column.
    """
    return [
        Guard(
            condition=condition_on(column_named(field.name)),
            rule=f"the column '{path}' has the type {bounded.simpleString()}",
            remedy="Shorten the text in `query`, as with substring().",
        )
        for field in schema
        for path, bounded, condition_on in _length_conditions(field.type, bounded_type(field), field.name)
    ]


def _members(data_type: StructType, bounded: _MaybeBounded) -> Iterator[tuple[StructField, _MaybeBounded]]:
    """Yield each member with its bounded type, from the type of the struct or from the member's metadata."""
    members = bounded.fields if isinstance(bounded, spark_types.StructType) else []
    types_by_name = {member.name.lower(): member.dataType for member in members}
    for field in data_type:
        yield field, types_by_name.get(field.name.lower()) or bounded_type(field)


def _length_conditions(
    data_type: DataType, bounded: _MaybeBounded, path: str
) -> Iterator[tuple[str, _Bounded, ColumnFunction]]:
    """Yield the path, the type and the condition of each text of bounded length in a value."""
    match data_type, bounded:
        case _, spark_types.CharType() | spark_types.VarcharType():
            max_length = bounded.length
            yield path, bounded, lambda text: text.isNull() | (F.length(text) <= max_length)
        case StructType(), _:
            for field, inner in _members(data_type, bounded):
                for text_path, text_type, condition_on in _length_conditions(field.type, inner, f"{path}.{field.name}"):
                    yield text_path, text_type, of_member(field.name, condition_on)
        case ArrayType(element), _:
            inner = bounded.elementType if isinstance(bounded, spark_types.ArrayType) else None
            for text_path, text_type, condition_on in _length_conditions(element, inner, f"{path}.element"):
                yield text_path, text_type, of_each(lambda array: array, condition_on)
        case MapType(key, value), _:
            inner_key, inner_value = _key_and_value_types(bounded)
            for text_path, text_type, condition_on in _length_conditions(key, inner_key, f"{path}.key"):
                yield text_path, text_type, of_each(F.map_keys, condition_on)
            for text_path, text_type, condition_on in _length_conditions(value, inner_value, f"{path}.value"):
                yield text_path, text_type, of_each(F.map_values, condition_on)
        case _:
            return


def _change_texts(value: Column, data_type: DataType, bounded: _MaybeBounded, change: _Change) -> Column | None:
    """Return a value with its texts of bounded length changed, or None if all of them stay unchanged."""
    match data_type, bounded:
        case _, spark_types.CharType() | spark_types.VarcharType():
            return change(value, bounded)
        case StructType(), _:
            members = {
                field.name: _change_texts(value.getField(field.name), field.type, inner, change)
                for field, inner in _members(data_type, bounded)
            }
            if all(member is None for member in members.values()):
                return None
            new_members = [(value.getField(n) if member is None else member).alias(n) for n, member in members.items()]
            return F.when(value.isNotNull(), F.struct(*new_members))
        case ArrayType(element), _:
            inner = bounded.elementType if isinstance(bounded, spark_types.ArrayType) else None
            return _change_items(value, element, inner, change)
        case MapType(key, item), _:
            inner_key, inner_item = _key_and_value_types(bounded)
            keys = _change_items(F.map_keys(value), key, inner_key, change)
            items = _change_items(F.map_values(value), item, inner_item, change)
            if keys is None and items is None:
                return None
            return F.map_from_arrays(
                F.map_keys(value) if keys is None else keys, F.map_values(value) if items is None else items
            )
        case _:
            return None


def _change_items(array: Column, element: DataType, bounded: _MaybeBounded, change: _Change) -> Column | None:
    """Return an array with the texts in its items changed, or None if all of them stay unchanged."""
    if _change_texts(array, element, bounded, change) is None:
        return None

    def change_item(item: Column) -> Column:
        changed_item = _change_texts(item, element, bounded, change)
        return item if changed_item is None else changed_item

    return F.transform(array, change_item)


def _fitted_text(text: Column, bounded: _Bounded) -> Column:
    """Return a text without excess blanks at its end. A text of a char(n) is padded."""
    max_length = bounded.length
    fits_without_blanks = (F.length(text) > max_length) & (F.length(F.rtrim(text)) <= max_length)
    fitted_text = F.when(fits_without_blanks, F.substring(text, 1, max_length))
    if isinstance(bounded, spark_types.CharType):
        fitted_text = fitted_text.when(F.length(text) < max_length, F.rpad(text, max_length, " "))
    return fitted_text.otherwise(text)


def _padded_text(text: Column, bounded: _Bounded) -> Column | None:
    """Return a text of a char(n) padded with blanks, or None for a varchar(n)."""
    if isinstance(bounded, spark_types.VarcharType):
        return None
    return F.when(F.length(text) < bounded.length, F.rpad(text, bounded.length, " ")).otherwise(text)


def _key_and_value_types(bounded: _MaybeBounded) -> tuple[_MaybeBounded, _MaybeBounded]:
    return (bounded.keyType, bounded.valueType) if isinstance(bounded, spark_types.MapType) else (None, None)
