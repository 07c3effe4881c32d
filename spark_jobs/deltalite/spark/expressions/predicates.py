"""SQL predicates: Spark parses, resolves and folds a predicate, and this module converts it to a predicate tree.

Catalyst's optimized condition is read from JSON, a list of nodes in pre-order. Only conditions that the tree can
express exactly are converted. Any other condition becomes `Unknown` over the columns it reads, and excludes no file.
Subqueries and non-deterministic expressions (`rand()`, `now()`) are refused, because files and their rows are
selected by separate evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from deltalite.columnar.predicates.char_texts import on_stored_texts
from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Not,
    Operator,
    Or,
    Path,
    Predicate,
    StartsWith,
    Unknown,
    columns_of,
    literal_fits,
)
from deltalite.columnar.skipping.file_facts import nearest_single
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import DataType, StructType, contains_type, holds_char, member_at, parse_type
from deltalite.spark.columns.names import TARGET
from deltalite.spark.expressions.catalyst import ConditionNode, kind_of, nodes_of, query_execution
from deltalite.spark.expressions.non_deterministic import non_deterministic_part
from deltalite.spark.expressions.sql import has_star_for_all_columns, no_rows
from deltalite.spark.runtime.errors import first_line
from deltalite.spark.runtime.session import settings

_OFFSET_PATTERN = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::(?P<minutes>\d{2}))?")
"""A session time zone that is an offset from UTC, such as `+05:30` or `GMT-8`."""
_COMPARISONS = {
    "EqualTo": Operator.EQ,
    "EqualNullSafe": Operator.NULL_SAFE_EQ,
    "LessThan": Operator.LT,
    "LessThanOrEqual": Operator.LT_EQ,
    "GreaterThan": Operator.GT,
    "GreaterThanOrEqual": Operator.GT_EQ,
}
_MIRRORED_OPERATORS = {
    Operator.LT: Operator.GT,
    Operator.LT_EQ: Operator.GT_EQ,
    Operator.GT: Operator.LT,
    Operator.GT_EQ: Operator.LT_EQ,
}
KEEP_IN_LISTS: Mapping[str, str] = {"spark.sql.optimizer.inSetConversionThreshold": "100000"}
"""The settings with which the optimizer converts a list of IN to a set only above 100,000 values."""


def parse_predicate(spark: SparkSession, text: str, schema: StructType, *, parameter: str) -> Predicate:
    """Return the predicate of a SQL `text` on rows of `schema`. Errors name `parameter`.

    Raises:
        InvalidRequestError: the text does not parse, names an unknown column, is not boolean, is non-deterministic,
            holds a subquery, uses `*` for all columns, or has a constant part that cannot be computed.
    """
    rows = no_rows(spark, schema).alias(TARGET)
    with settings(spark, KEEP_IN_LISTS):
        filtered = _filtered(rows, text, parameter)
        _check_repeatable(query_execution(filtered).analyzed(), text, parameter)
        if has_star_for_all_columns(spark, text):
            raise InvalidRequestError(
                f"{parameter} uses * for all columns: {text!r}.", remedy="Name the columns of the condition."
            )
        optimized = optimized_plan(filtered, text, parameter)
        # The optimizer removes the filter if the condition is always true, and the rows if it is never true.
        match optimized.getClass().getSimpleName():
            case "Filter":
                return predicate_of(spark, optimized.condition(), schema)
            case "LocalRelation":
                return Constant(truth=False)
            case "LogicalRDD":
                return Constant(truth=True)
            case _:
                return Unknown(frozenset((name,) for name in schema.names))


def predicate_of(spark: SparkSession, condition: Any, schema: StructType) -> Predicate:
    """Return the predicate of an optimized Catalyst condition on rows of `schema`."""
    return _PredicateBuilder(schema, _session_time_zone(spark)).predicate(ConditionNode.parse(condition))


def _filtered(rows: DataFrame, text: str, parameter: str) -> DataFrame:
    try:
        return rows.where(text)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequestError(
            f"{parameter} is not a predicate on this table: {first_line(error)}",
            remedy=f"Correct {parameter}: {text!r}. The table has the columns {', '.join(rows.columns)}.",
        ) from error


def optimized_plan(frame: DataFrame, text: str, parameter: str) -> Any:
    """Return the plan after constant folding, which computes constant parts of the text, such as a cast.

    Raises:
        InvalidRequestError: a constant part cannot be computed.
    """
    try:
        return query_execution(frame).optimizedPlan()
    except PySparkException as error:
        raise InvalidRequestError(
            f"{parameter} cannot be computed: {first_line(error)}", remedy=f"Correct {parameter}: {text!r}."
        ) from error


def _check_repeatable(analyzed: Any, text: str, parameter: str) -> None:
    condition = analyzed.condition() if analyzed.getClass().getSimpleName() == "Filter" else None
    if condition is None:
        return
    if not condition.deterministic():
        raise InvalidRequestError(
            f"{parameter} is not deterministic: {text!r}.", remedy="Leave out rand(), uuid() and the like."
        )
    nodes = nodes_of(condition)
    kinds = [kind_of(node) for node in nodes]
    if any("Subquery" in kind or kind == "Exists" for kind in kinds):
        raise InvalidRequestError(
            f"{parameter} holds a subquery: {text!r}.",
            remedy="Compute the values first and write them into the predicate.",
        )
    part = non_deterministic_part(nodes, text)
    if part is not None:
        raise InvalidRequestError(
            f"{parameter} contains {part}, and each evaluation in the task may return another value: {text!r}.",
            remedy="Write the value itself. A DAG can template the value, as in TIMESTAMP '{{ ts }}' or "
            "DATE '{{ ds }}'.",
        )


def _session_time_zone(spark: SparkSession) -> tzinfo | None:
    """Return the session's time zone, which Spark uses for timestamp literals; None if Python does not know it."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    offset = _OFFSET_PATTERN.fullmatch(zone)
    if offset is not None:
        absolute_offset = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-absolute_offset if offset["sign"] == "-" else absolute_offset)
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return None


class _NotExpressibleError(Exception):
    """A predicate cannot express a node, because the node is not a column, or not a literal of the column's type."""


class _PredicateBuilder:
    """Converts the nodes of one condition to a predicate."""

    def __init__(self, schema: StructType, zone: tzinfo | None) -> None:
        self._schema = schema
        self._zone = zone
        self._char_columns = frozenset(field.name for field in schema if holds_char(field))

    def predicate(self, node: ConditionNode) -> Predicate:
        """Return the predicate of a node."""
        match node.kind, node.children:
            case "And", [left, right]:
                return And((self.predicate(left), self.predicate(right)))
            case "Or", [left, right]:
                return Or((self.predicate(left), self.predicate(right)))
            case "Not", [child]:
                return Not(self.predicate(child))
            case _:
                try:
                    leaf = self._leaf(node)
                except _NotExpressibleError:
                    return Unknown(frozenset(node.attributes()))
                return leaf if isinstance(leaf, Constant) else self._on_stored_values(leaf)

    def _on_stored_values(self, leaf: Leaf) -> Predicate:
        """Return the predicate on the stored values. Spark pads texts of char(n) only when it reads them."""
        if leaf.column[0] not in self._char_columns or isinstance(leaf, IsNull | IsNotNull):
            return leaf
        return on_stored_texts(leaf)

    def _leaf(self, node: ConditionNode) -> Leaf | Constant:
        match node.kind, node.children:
            case "IsNull", [child]:
                return IsNull(self._column(child)[0])
            case "IsNotNull", [child]:
                return IsNotNull(self._column(child)[0])
            case "StartsWith", [child, prefix]:
                column, data_type = self._column(child)
                return StartsWith(column, self._literal(prefix, data_type))
            case "In", [child, *values]:
                column, data_type = self._column(child)
                return In(column, tuple(self._literal(v, data_type) for v in values))
            case (("AttributeReference" | "GetStructField"), _):
                return Comparison(column=self._column(node)[0], operator=Operator.EQ, literal=True)
            case "Literal", _ if node.body.get("dataType") == "boolean":
                return Constant({"true": True, "false": False}.get(str(node.body.get("value")).lower()))
            case kind, [left, right] if kind in _COMPARISONS:
                return self._comparison(_COMPARISONS[kind], left, right)
            case _:
                raise _NotExpressibleError

    def _comparison(self, operator: Operator, left: ConditionNode, right: ConditionNode) -> Comparison:
        if left.kind == "Literal":
            left, right, operator = right, left, _MIRRORED_OPERATORS.get(operator, operator)
        column, data_type = self._column(left)
        return Comparison(column=column, operator=operator, literal=self._literal(right, data_type))

    def _column(self, node: ConditionNode) -> tuple[Path, DataType]:
        path = node.path()
        member = None if path is None else member_at(self._schema, path)
        if member is None:
            raise _NotExpressibleError
        return member

    def _literal(self, node: ConditionNode, data_type: DataType) -> Any:
        if node.kind != "Literal" or node.body.get("value") is None:
            raise _NotExpressibleError
        if not isinstance(node.body["dataType"], str) or parse_type(node.body["dataType"]) != data_type:
            raise _NotExpressibleError
        value = self._parse(str(node.body["value"]), node.body["dataType"])
        if not literal_fits(value, data_type):
            raise _NotExpressibleError
        return value

    def _parse(self, text: str, type_name: str) -> Any:
        """Return the value of a literal's text."""
        try:
            match type_name:
                case "string":
                    return text
                case "byte" | "short" | "integer" | "long":
                    return int(text)
                case "float" | "double":
                    # Spark writes a float as its shortest text. As a double, this text may differ from the float.
                    return nearest_single(float(text)) if type_name == "float" else float(text)
                case "boolean":
                    return text == "true"
                case "date":
                    return date.fromisoformat(text)
                case "timestamp":
                    return self._timestamp(text)
                case "timestamp_ntz":
                    # Spark writes microseconds since 1970 without a time zone.
                    return datetime(1970, 1, 1) + timedelta(microseconds=int(text))  # noqa: DTZ001  it has no zone
                case _ if type_name.startswith("decimal"):
                    return Decimal(text)
        except (ValueError, ArithmeticError) as error:
            raise _NotExpressibleError from error
        raise _NotExpressibleError

    def _timestamp(self, text: str) -> datetime:
        """Return the value of a timestamp literal.

        Raises:
            _NotExpressibleError: the time occurs twice or never in the session's time zone, the zone is unknown, or the
                text has an offset.
        """
        local = datetime.fromisoformat(text)
        if self._zone is None or local.tzinfo is not None:
            raise _NotExpressibleError
        first, second = (local.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        if first.utcoffset() != second.utcoffset():
            raise _NotExpressibleError
        return first.astimezone(UTC)


def reads_only(predicate: Predicate, columns: tuple[str, ...]) -> bool:
    """Whether the predicate reads only these columns, ignoring case."""
    names = {c.lower() for c in columns}
    return all(path[0].lower() in names for path in columns_of(predicate))


def reads_floating_point(predicate: Predicate, schema: StructType) -> bool:
    """Whether the predicate reads a column that is or contains a float or a double, or that `schema` lacks."""
    members = (member_at(schema, path) for path in columns_of(predicate))
    return any(
        member is None or contains_type(member[1], "float") or contains_type(member[1], "double") for member in members
    )
