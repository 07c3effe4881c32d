"""One source row for each key: the parameter `deduplicate`.

Nulls in a key equal each other, as in GROUP BY. A null in `order_by` is lower than any value, as in Spark's ORDER BY.
The choice does not depend on the order in which Spark reads the rows. If several different rows of a key could be kept,
the query fails.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructField, StructType
from deltalite.requests import Deduplicate
from deltalite.requests.deduplicate import Keep
from deltalite.spark.columns.comparing import comparable
from deltalite.spark.columns.names import SOURCE, column_named, fields_named, unused_name
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.sql import Expressions, no_rows_of_source, request_error_builder
from deltalite.spark.runtime.errors import raise_ambiguous_rows


def deduplicate_rows(rows: DataFrame, rule: Deduplicate | None) -> DataFrame:
    """Return the rows that the rule keeps; without a rule, all rows.

    A query on the result fails if rows of a key differ, and `order_by` does not decide between them. `data_error`
    converts this failure to an `AmbiguousRowsError`.

    Raises:
        InvalidRequestError: a key is not a column, or an expression of `order_by` is wrong.
        SchemaMismatchError: the rows have two columns of one name, or a type that Delta does not have.
    """
    if rule is None:
        return rows
    schema = from_spark(rows.schema)
    keys = [column_named(field.name) for field in _key_fields(schema, rule)]
    number, is_tie = unused_name(schema, "number"), unused_name(schema, "tie")
    order = _order(rows, rule)
    whole_row = F.struct(*[comparable(column_named(f.name), f.type).alias(f.name) for f in schema])
    by_key = Window.partitionBy(*keys).orderBy(*order)
    equal_rows = by_key.rangeBetween(Window.currentRow, Window.currentRow)
    differs = F.min(whole_row).over(equal_rows) != F.max(whole_row).over(equal_rows)
    numbered = rows.alias(SOURCE).select(
        *map(column_named, schema.names), F.row_number().over(by_key).alias(number), differs.alias(is_tie)
    )
    kept_rows = numbered.where(column_named(number) == 1)
    key_text = F.to_json(F.struct(*keys), {"ignoreNullFields": "false"})
    failure = raise_ambiguous_rows(F.concat(F.lit("deduplicate: the rows of the key "), key_text, F.lit(_reason(rule))))
    return kept_rows.where(F.when(~column_named(is_tie), F.lit(True)).otherwise(failure)).select(
        *map(column_named, schema.names)
    )


def _reason(rule: Deduplicate) -> str:
    if not rule.order_by:
        return " differ, and there is no order_by"
    return f" differ, and have equal values of order_by ({', '.join(rule.order_texts)})"


def _key_fields(schema: StructType, rule: Deduplicate) -> tuple[StructField, ...]:
    return fields_named(
        schema,
        rule.keys,
        problem=lambda name: f"deduplicate names the key {name!r}, which is not a column of the source.",
        remedy="The source has the columns",
    )


def _order(rows: DataFrame, rule: Deduplicate) -> list[Column]:
    expressions = Expressions.of_request(no_rows_of_source(rows))
    order = []
    for text in rule.order_texts:
        error_for = request_error_builder("order", text, parameter="deduplicate.order_by")
        column, data_type, _ = expressions.deterministic_value(text, error_for)
        value = comparable(column, data_type)
        order.append(value.desc() if rule.keep is Keep.LAST else value.asc())
    return order or [F.lit(0)]
