"""SQL expressions as Spark columns, resolved before a row is read.

Expressions have two origins with different rules:

- An expression in a table's metadata may come from anybody who can write to the table. It may use only Spark's built-in
  functions, except those that call into Java.
- An expression of a request may also use functions that call into Java, and functions that the user has added to the
  session.

No expression may hold a subquery or a window function, and only `aggregate` accepts aggregates. An expression must be
deterministic if it is evaluated more than once or compared with another value of the row. A request may not use `*` for
all columns, because the rows also have helper columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Self

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql.types import StructType as SparkStruct

from deltalite.errors import DeltaLiteError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.schema import DataType, StructType
from deltalite.spark.columns.names import SOURCE, TARGET
from deltalite.spark.columns.types import from_spark, spark_type, to_spark, with_char_types
from deltalite.spark.expressions.catalyst import kind_of, nodes_of, query_execution
from deltalite.spark.expressions.non_deterministic import non_deterministic_part
from deltalite.spark.runtime.errors import first_line
from deltalite.spark.runtime.java_classes import java_class

_FORBIDDEN_KINDS_IN_TABLES = re.compile(r"^Exists$|Subquery|UDF|UDAF|Reflect|^AggregateExpression$")
_FORBIDDEN_KINDS_IN_REQUESTS = re.compile(r"^Exists$|Subquery|^AggregateExpression$|^WindowExpression$")
_FORBIDDEN_KINDS_IN_AGGREGATES = re.compile(r"^Exists$|Subquery|^WindowExpression$")
ErrorBuilder = Callable[[str], DeltaLiteError]
"""Builds the error from the reason why an expression is wrong."""


def table_error_builder(role: str, text: str) -> ErrorBuilder:
    """Return the error builder for an expression of the table's metadata."""
    return lambda reason: UnsupportedFeatureError(
        f"The {role} is ({text}), which cannot be computed here: {reason}",
        remedy="Correct the expression, or write the table with the engine that made it.",
    )


def request_error_builder(role: str, text: str, *, parameter: str = "properties") -> ErrorBuilder:
    """Return the error builder for an expression of the request's `parameter`."""
    return lambda reason: InvalidRequestError(
        f"The {role} is ({text}), which cannot be computed: {reason}",
        remedy=f"Correct the expression in `{parameter}`.",
    )


def delete_condition(expressions: Expressions, delete_when: str | None) -> Column:
    """Return whether a source row deletes its key: the SQL `delete_when` is true for the row, and not NULL.

    Raises:
        InvalidRequestError: `delete_when` is wrong.
    """
    if delete_when is None:
        return F.lit(False)
    error_for = request_error_builder("condition", delete_when, parameter="delete_when")
    return F.coalesce(expressions.condition(delete_when, error_for), F.lit(False))


class Expressions:
    """Resolves expressions on rows of one schema. The methods raise an error of `error_for` for a wrong expression."""

    def __init__(self, rows: DataFrame, forbidden_kinds: re.Pattern[str], *, is_repeated: bool) -> None:
        self._rows = rows
        self._forbidden_kinds = forbidden_kinds
        self._is_repeated = is_repeated  # whether more than one pass over the rows evaluates an expression

    @classmethod
    def of_table(cls, spark: SparkSession, schema: StructType) -> Self:
        """Return a resolver for the expressions of a table's metadata."""
        return cls(no_rows(spark, schema), _FORBIDDEN_KINDS_IN_TABLES, is_repeated=False)

    @classmethod
    def of_request(cls, rows: DataFrame) -> Self:
        """Return a resolver for the expressions of a request, on rows of the schema of `rows`."""
        return cls(rows, _FORBIDDEN_KINDS_IN_REQUESTS, is_repeated=True)

    def has_column(self, name: str) -> bool:
        """Whether the rows have a column of this name, ignoring case."""
        return any(column.lower() == name.lower() for column in self._rows.columns)

    def condition(self, text: str, error_for: ErrorBuilder) -> Column:
        """Resolve a boolean expression, and return it as a column."""
        node = self._resolve(F.expr(text), error_for)
        if node.dataType().typeName() not in ("boolean", "void"):
            raise error_for(f"it is {node.dataType().simpleString()}, not boolean.")
        self._check_parts(node, error_for, allows_non_determinism=False)
        self._check_no_star(text, error_for)
        part = non_deterministic_part(nodes_of(node), text) if self._is_repeated else None
        if part is not None:
            raise error_for(
                f"it contains {part}, and each evaluation may return another value. Write the value itself. A DAG can "
                "template the value, as in TIMESTAMP '{{ ts }}'."
            )
        return F.expr(text).cast("boolean") if node.dataType().typeName() == "void" else F.expr(text)

    def typed_value(self, text: str, error_for: ErrorBuilder) -> tuple[Column, DataType, bool]:
        """Resolve an expression. Return it as a column, its type, and whether it is non-deterministic."""
        node = self._resolve(F.expr(text), error_for)
        self._check_parts(node, error_for, allows_non_determinism=True)
        self._check_no_star(text, error_for)
        try:
            data_type = from_spark(self._rows.select(F.expr(text).alias("value")).schema).fields[0].type
        except SchemaMismatchError as error:
            raise error_for(f"it is {node.dataType().simpleString()}, which no column can hold.") from error
        is_non_deterministic = not node.deterministic() or non_deterministic_part(nodes_of(node), text) is not None
        return F.expr(text), data_type, is_non_deterministic

    def aggregate(self, text: str, error_for: ErrorBuilder) -> str:
        """Check an expression that returns one value for all rows, and return the name of its type.

        The expression may hold aggregates, but must be deterministic.
        """
        node = self._expression_of(
            lambda: self._rows.agg(F.expr(text).alias("value")), "Aggregate", error_for, value_for="all rows"
        )
        nodes = nodes_of(node)
        _refuse_kinds(map(kind_of, nodes), _FORBIDDEN_KINDS_IN_AGGREGATES, error_for)
        part = non_deterministic_part(nodes, text)
        if part is not None or not node.deterministic():
            raise error_for(f"it contains {part or 'a function'}, and each evaluation may return another value.")
        type_name: str = node.dataType().typeName()
        return type_name

    def value(
        self, text: str, data_type: DataType, error_for: ErrorBuilder, *, allows_non_determinism: bool
    ) -> tuple[Column, frozenset[str]]:
        """Return an expression cast to the type, and the columns that it reads, in lower case.

        Without `allows_non_determinism`, raise an error of `error_for` for a non-deterministic expression.
        """
        column = F.expr(text).cast(spark_type(data_type))
        node = self._resolve(column, error_for)
        return column, self._check_parts(node, error_for, allows_non_determinism=allows_non_determinism)

    def deterministic_value(self, text: str, error_for: ErrorBuilder) -> tuple[Column, DataType, frozenset[str]]:
        """Resolve a deterministic expression. Return the column, its type, and the names it reads, in lower case."""
        _, data_type, is_non_deterministic = self.typed_value(text, error_for)
        if is_non_deterministic:
            raise error_for("it is not deterministic.")
        if _has_alias(self._rows.sparkSession, text):  # such as `a DESC`, which Spark reads as `a AS DESC`
            raise error_for("a name follows the expression. Write only the expression.")
        column, columns = self.value(text, data_type, error_for, allows_non_determinism=False)
        return column, data_type, columns

    def _resolve(self, column: Column, error_for: ErrorBuilder) -> Any:
        """Return Catalyst's analyzed expression of a column, or raise an error of `error_for`."""
        # A generator, a window function or an aggregate adds a step to the plan.
        return self._expression_of(
            lambda: self._rows.select(column.alias("value")), "Project", error_for, value_for="a row"
        )

    def _expression_of(
        self, make_frame: Callable[[], DataFrame], step: str, error_for: ErrorBuilder, *, value_for: str
    ) -> Any:
        """Return Catalyst's analyzed expression of the only column of a frame.

        Raise an error of `error_for` if Spark cannot analyze the frame, or if its plan is not exactly one `step` on the
        rows. A step is a class of Catalyst, such as `Project`.
        """
        try:
            frame = make_frame()
        except (AnalysisException, ParseException) as error:
            raise error_for(first_line(error)) from error
        plan = query_execution(frame).analyzed()
        is_one_step = plan.getClass().getSimpleName() == step and plan.children().size() == 1
        if not is_one_step or not plan.children().apply(0).equals(query_execution(self._rows).analyzed()):
            raise error_for(f"it does not return exactly one value for {value_for}.")
        return plan.expressions().apply(0)

    def _check_parts(self, node: Any, error_for: ErrorBuilder, *, allows_non_determinism: bool) -> frozenset[str]:
        """Refuse forbidden parts of an expression, and return the names of the columns it reads, in lower case."""
        nodes = nodes_of(node)
        kinds = [kind_of(n) for n in nodes]
        _refuse_kinds(kinds, self._forbidden_kinds, error_for)
        if not allows_non_determinism and not node.deterministic():
            raise error_for("it is not deterministic.")
        return frozenset(
            str(n["name"]).lower() for n, kind in zip(nodes, kinds, strict=True) if kind == "AttributeReference"
        )

    def _check_no_star(self, text: str, error_for: ErrorBuilder) -> None:
        if self._is_repeated and has_star_for_all_columns(self._rows.sparkSession, text):
            raise error_for("it contains *, which stands for all columns. Name the columns.")


def _refuse_kinds(kinds: Iterable[str], forbidden_kinds: re.Pattern[str], error_for: ErrorBuilder) -> None:
    forbidden_kind = next((kind for kind in kinds if forbidden_kinds.search(kind)), None)
    if forbidden_kind is not None:
        raise error_for(f"it may not use {forbidden_kind}.")


def has_star_for_all_columns(spark: SparkSession, text: str) -> bool:
    """Whether an expression holds a `*` for the columns of the rows. The members of a struct, `s.*`, do not count."""
    stars = [n for n in nodes_of(_parsed(spark, text)) if "UnresolvedStar" in kind_of(n)]
    return any(_is_of_rows(star.get("target")) for star in stars)


def _has_alias(spark: SparkSession, text: str) -> bool:
    return "Alias" in _parsed(spark, text).getClass().getSimpleName()


def _parsed(spark: SparkSession, text: str) -> Any:
    """Return Catalyst's expression of a text, before the analysis."""
    session: Any = spark
    return session._jsparkSession.sessionState().sqlParser().parseExpression(text)


def _is_of_rows(qualifier: Any) -> bool:
    """Whether the qualifier of a `*` is empty, or an alias of the rows."""
    names = re.sub(r"[\[\]`\s]", "", str(qualifier or "")).lower()
    return names in ("", TARGET, SOURCE)


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty frame with these columns. The optimizer does not know that the frame is empty.

    Columns of the type char(n) keep this type in their metadata, so that Spark pads texts that SQL compares with them.
    """
    return no_rows_of(spark, with_char_types(to_spark(schema), schema))


def no_rows_of_source(source: DataFrame) -> DataFrame:
    """Return an empty frame with the columns of a source, under the alias `source`."""
    return no_rows_of(source.sparkSession, source.schema).alias(SOURCE)


def no_rows_of(spark: SparkSession, schema: SparkStruct) -> DataFrame:
    """Return an empty frame with a Spark schema, as `no_rows` does.

    The session becomes active, as with `createDataFrame`. Catalyst needs an active session, because it formats literals
    in the time zone of this session. `createDataFrame` would send more than twice as many requests to the JVM, because
    it converts Python's rows.
    """
    session: Any = spark._jsparkSession
    SparkSession._activeSession = spark
    java_class(spark._jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)
    context: Any = spark.sparkContext._jsc
    return DataFrame(session.createDataFrame(context.emptyRDD(), session.parseDataType(schema.json())), spark)
