"""SQL that a table carries in its metadata, as columns of Spark.

The text comes from whoever has written the table, so it is resolved against the table's schema before a row is read,
and may only compute: no subqueries, no functions that Spark does not bring along, none that call into Java, and where
its value is compared with another one of the same row, none that gives another value each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import DeltaLiteError, InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.schema import DataType, StructType
from deltalite.spark.errors import first_line
from deltalite.spark.types import spark_type, to_spark

_FORBIDDEN = re.compile(r"^Exists$|Subquery|UDF|UDAF|Reflect|^AggregateExpression$")
Failure = Callable[[str], DeltaLiteError]
"""Makes the error from what is wrong with an expression."""


def of_the_table(what: str, text: str) -> Failure:
    """The error for an expression that stands in the table's metadata; `what` names it there."""
    return lambda why: UnsupportedFeatureError(
        f"The {what} is ({text}), which cannot be computed here: {why}",
        remedy="Correct it, or write the table with the engine that made it.",
    )


def of_the_request(what: str, text: str) -> Failure:
    """The error for an expression that the request brings."""
    return lambda why: InvalidRequestError(
        f"The {what} is ({text}), which cannot be computed: {why}", remedy="Correct it in `properties`."
    )


class TableExpressions:
    """Resolves expressions on rows of one schema."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        self._rows = spark.createDataFrame(spark.sparkContext.emptyRDD(), to_spark(schema))

    def condition(self, text: str, failure: Failure) -> Column:
        """A boolean expression."""
        node = self._resolved(F.expr(text), failure)
        if node.dataType().typeName() != "boolean":
            raise failure(f"it is {node.dataType().simpleString()}, not boolean.")
        self._check(node, failure, varies=False)
        return F.expr(text)

    def value(self, text: str, data_type: DataType, failure: Failure, *, varies: bool) -> tuple[Column, frozenset[str]]:
        """An expression as a value of the type, and the columns that it reads, in lower case.

        It may differ each time where it `varies`.
        """
        made = F.expr(text).cast(spark_type(data_type))
        return made, self._check(self._resolved(made, failure), failure, varies=varies)

    def _resolved(self, column: Column, failure: Failure) -> Any:
        try:
            frame: Any = self._rows.select(column.alias("value"))
        except (AnalysisException, ParseException) as error:
            raise failure(first_line(error)) from error
        plan = frame._jdf.queryExecution().analyzed()
        # A generator or a window function stands beside the columns, not among them.
        if plan.children().size() != 1 or not plan.children().apply(0).children().isEmpty():
            raise failure("it gives no single value for a row.")
        return plan.expressions().apply(0)

    def _check(self, node: Any, failure: Failure, *, varies: bool) -> frozenset[str]:
        nodes = json.loads(node.toJSON())
        kinds = [str(n["class"]).rpartition(".")[2] for n in nodes]
        found = next((kind for kind in kinds if _FORBIDDEN.search(kind)), None)
        if found is not None:
            raise failure(f"it may not use {found}.")
        if not varies and not node.deterministic():
            raise failure("it is not deterministic.")
        return frozenset(
            str(n["name"]).lower() for n, kind in zip(nodes, kinds, strict=True) if kind == "AttributeReference"
        )
