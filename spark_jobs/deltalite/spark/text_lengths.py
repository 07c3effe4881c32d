"""Columns of the types char(n) and varchar(n): stored as strings, whose lengths are enforced on new rows.

The field's metadata keeps the type. As Spark does, blanks at the end of a text that is too long are cut off, and what
is still too long is refused. Lengths count characters. A shorter text of a char is not filled with blanks: conditions
would then have to ignore them, and statistics of older files too. Rows that only move are left as they are. Spark:
CharVarcharUtils; Delta: CharVarcharConstraint.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.schema import CHAR_VARCHAR, ArrayType, DataType, MapType, StructField, StructType
from deltalite.spark.columns import named
from deltalite.spark.guards import Guard, Holds, of_each, of_member

_Bounded = spark_types.CharType | spark_types.VarcharType
_Type = spark_types.DataType | None
"""A type with texts of bounded length inside, None where nothing is known of any."""


def fitted(rows: DataFrame, schema: StructType, *, where: Column | None = None) -> DataFrame:
    """The rows with texts cut to the lengths of their types; only those rows `where` a condition is TRUE.

    Raises:
        UnsupportedFeatureError: the type in the metadata of a column is none.
    """
    columns = {}
    for field in schema:
        value = _fitted(named(field.name), field.type, _bounded_type(field))
        if value is not None:
            chosen = value if where is None else F.when(where, value).otherwise(named(field.name))
            columns[field.name] = chosen.alias(field.name)
    if not columns:
        return rows
    return rows.select(*[columns.get(name, named(name)) for name in rows.columns])


def length_guards(schema: StructType) -> list[Guard]:
    """One guard for each text of bounded length, at every depth.

    Raises:
        UnsupportedFeatureError: the type in the metadata of a column is none.
    """
    return [
        Guard(
            condition=holds(named(field.name)),
            rule=f"the column '{path}' has the type {bounded.simpleString()}",
            remedy="Shorten the text in `query`, as with substring().",
        )
        for field in schema
        for path, bounded, holds in _lengths(field.type, _bounded_type(field), field.name)
    ]


def _bounded_type(field: StructField) -> _Type:
    """The type in the field's metadata; None where it has none."""
    text = field.metadata.get(CHAR_VARCHAR)
    if text is None:
        return None
    try:
        return spark_types.DataType.fromDDL(str(text))
    except PySparkException as error:
        raise UnsupportedFeatureError(
            f"The column '{field.name}' has the type {text!r:.80} in its metadata ({CHAR_VARCHAR}), which is none.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        ) from error


def _members(data_type: StructType, bounded: _Type) -> Iterator[tuple[StructField, _Type]]:
    """Each member with its type of bounded texts: from the type of the whole, or from its own metadata."""
    known = {f.name.lower(): f.dataType for f in bounded.fields} if isinstance(bounded, spark_types.StructType) else {}
    for field in data_type:
        yield field, known.get(field.name.lower()) or _bounded_type(field)


def _lengths(data_type: DataType, bounded: _Type, path: str) -> Iterator[tuple[str, _Bounded, Holds]]:
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


def _fitted(value: Column, data_type: DataType, bounded: _Type) -> Column | None:
    """The value with its texts cut; None where it has no text of bounded length."""
    match data_type, bounded:
        case _, spark_types.CharType() | spark_types.VarcharType():
            return _fitted_text(value, bounded)
        case StructType(), _:
            members = {
                field.name: _fitted(value.getField(field.name), field.type, inner)
                for field, inner in _members(data_type, bounded)
            }
            if all(member is None for member in members.values()):
                return None
            made = [(value.getField(n) if member is None else member).alias(n) for n, member in members.items()]
            return F.when(value.isNotNull(), F.struct(*made))
        case ArrayType(element), _:
            inner = bounded.elementType if isinstance(bounded, spark_types.ArrayType) else None
            return _fitted_items(value, element, inner) if _is_bounded(element, inner) else None
        case MapType(key, item), _:
            inner_key, inner_item = _of_map(bounded)
            if not (_is_bounded(key, inner_key) or _is_bounded(item, inner_item)):
                return None
            keys = _fitted_items(F.map_keys(value), key, inner_key)
            return F.map_from_arrays(keys, _fitted_items(F.map_values(value), item, inner_item))
        case _:
            return None


def _fitted_text(text: Column, bounded: _Bounded) -> Column:
    """The text without the blanks at its end that are too many."""
    most = bounded.length
    fits_without_blanks = (F.length(text) > most) & (F.length(F.rtrim(text)) <= most)
    return F.when(fits_without_blanks, F.substring(text, 1, most)).otherwise(text)


def _fitted_items(array: Column, element: DataType, bounded: _Type) -> Column:
    def fit(item: Column) -> Column:
        made = _fitted(item, element, bounded)
        return item if made is None else made

    return F.transform(array, fit)


def _is_bounded(data_type: DataType, bounded: _Type) -> bool:
    return any(_lengths(data_type, bounded, ""))


def _of_map(bounded: _Type) -> tuple[_Type, _Type]:
    return (bounded.keyType, bounded.valueType) if isinstance(bounded, spark_types.MapType) else (None, None)
