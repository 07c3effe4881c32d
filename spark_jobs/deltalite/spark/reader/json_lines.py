"""The columns of JSON files in which some records have names that Spark's reader cannot assign to one column.

If a name occurs twice, Spark infers no columns. If records disagree about a column, Spark infers a type without
members, so this type does not show the names in the column. The functions here read such files as lines, and infer the
columns twice: from all records, and then from the records that fit. So bad records do not influence the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.protocol.source_schemas import schema_for_reading
from deltalite.requests import Source
from deltalite.spark.columns.types import from_spark, to_spark
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.bad_record_lines import TEXT, TEXT_SETTINGS, LineFormat, has_content, line_reader, line_text
from deltalite.spark.reader.bad_record_reasons import CORRUPT, parsed_record
from deltalite.spark.reader.json_inference import inferred_columns
from deltalite.spark.reader.json_names import problem_of_names
from deltalite.spark.reader.json_records import json_texts, without_byte_order_mark
from deltalite.spark.reader.record_schema import lower_options
from deltalite.spark.runtime.session import settings

_VALUE = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonColumns:
    """The columns of JSON files: those of all records, and those of the records that fit."""

    of_all_records: StructType
    of_good_records: StructType


def columns_of_lines(
    spark: SparkSession, source: Source, addresses: Sequence[str], line_format: LineFormat, table: StructType
) -> JsonColumns:
    """Return the columns of JSON files, with the types of the table where the table has the column."""
    options = lower_options(source)
    with settings(spark, TEXT_SETTINGS):
        lines = line_reader(spark, line_format).load(load_paths(addresses)).select(line_text(line_format).alias(TEXT))
        lines = lines.where(has_content(line_format))
        texts = lines.select(F.explode(json_texts(without_byte_order_mark(F.col(TEXT)), options)).alias(_VALUE))
        all_columns = inferred_columns(spark, texts, options)
        columns = schema_for_reading(from_spark(with_distinct_names(all_columns, table)), table)
        parsed = parsed_record(F.col(_VALUE), "json", to_spark(columns), options)
        has_good_names = problem_of_names(F.col(_VALUE), columns, options).isNull()
        good_columns = inferred_columns(spark, texts.where(parsed.getField(CORRUPT).isNull() & has_good_names), options)

    def merged(*fields: spark_types.StructField) -> StructType:
        distinct = with_distinct_names(spark_types.StructType(list(fields)), table)
        return schema_for_reading(from_spark(distinct), table)

    return JsonColumns(
        of_all_records=merged(*good_columns.fields, *all_columns.fields), of_good_records=merged(*good_columns.fields)
    )


def with_distinct_names(schema: spark_types.StructType, table: DataType | None) -> spark_types.StructType:
    """Return the schema with each name once at every depth, without regard to case.

    A name gets the table's spelling if this spelling occurs in the schema. Otherwise it gets its first spelling.
    """
    fields: dict[str, spark_types.StructField] = {}
    for field in schema.fields:
        column = table.find(field.name) if isinstance(table, StructType) else None
        key, table_type = field.name.lower(), None if column is None else column.type
        data_type, name = _distinct(field.dataType, table_type), field.name
        earlier_field = fields.get(key)
        if earlier_field is not None:
            data_type = _merged(earlier_field.dataType, data_type, table_type)
            name = field.name if column is not None and column.name == field.name else earlier_field.name
        fields[key] = spark_types.StructField(name, data_type)
    return spark_types.StructType(list(fields.values()))


def _distinct(data_type: spark_types.DataType, table: DataType | None) -> spark_types.DataType:
    match data_type, table:
        case spark_types.StructType(), MapType() if data_type.fields:
            # The names are keys of the map, which may differ in case. All values have one type.
            values = [_distinct(field.dataType, table.value) for field in data_type.fields]
            value = reduce(lambda one, other: _merged(one, other, table.value), values)
            return spark_types.StructType([spark_types.StructField(data_type.names[0], value)])
        case spark_types.StructType(), _:
            return with_distinct_names(data_type, table)
        case spark_types.ArrayType(), _:
            element = table.element if isinstance(table, ArrayType) else None
            return spark_types.ArrayType(_distinct(data_type.elementType, element))
        case _:
            return data_type


def _merged(one: spark_types.DataType, other: spark_types.DataType, table: DataType | None) -> spark_types.DataType:
    """Return a struct or an array with the members of both types. For any other two types, return the first type."""
    match one, other:
        case spark_types.StructType(), spark_types.StructType():
            return _distinct(spark_types.StructType([*one.fields, *other.fields]), table)
        case spark_types.ArrayType(), spark_types.ArrayType():
            element = table.element if isinstance(table, ArrayType) else None
            return spark_types.ArrayType(_merged(one.elementType, other.elementType, element))
        case _:
            return one
