"""SQL predicates: Spark parses, resolves and folds them; what is left becomes our own tree.

Catalyst's optimized condition comes over as JSON, a list of nodes in pre-order. Only what the tree can say exactly is
taken over; anything else is `Unknown` over the columns it reads, which never excludes a file. Subqueries are refused,
and so is what changes from row to row (`rand()`) or from look to look (`now()`): files are chosen by one evaluation,
and their rows by others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from deltalite.columnar.file_facts import nearest_single
from deltalite.columnar.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
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
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import DataType, StructType, parse_type
from deltalite.spark.columns import TARGET
from deltalite.spark.errors import first_line
from deltalite.spark.expressions import no_rows
from deltalite.spark.session import settings

_COMPARISONS = {
    "EqualTo": Operator.EQ,
    "EqualNullSafe": Operator.NULL_SAFE_EQ,
    "LessThan": Operator.LT,
    "LessThanOrEqual": Operator.LT_EQ,
    "GreaterThan": Operator.GT,
    "GreaterThanOrEqual": Operator.GT_EQ,
}
_MIRRORED = {
    Operator.LT: Operator.GT,
    Operator.LT_EQ: Operator.GT_EQ,
    Operator.GT: Operator.LT,
    Operator.GT_EQ: Operator.LT_EQ,
}
# What of Catalyst asks when, or by whom, it is computed, and how SQL calls it.
_MOVING = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}
# Texts that Spark takes for a time when it makes one of them. The parser itself does so after the name of a type, and
# leaves no trace of it.
_MOVING_TEXT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_MOVING_LITERAL = re.compile(rf"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*r?['\"]{_MOVING_TEXT.pattern}", re.IGNORECASE)
_MAKES_TIMES = frozenset({"Cast", "ParseToDate", "ParseToTimestamp"})
_KEEP_IN_LISTS = {"spark.sql.optimizer.inSetConversionThreshold": "100000"}


def parse_predicate(spark: SparkSession, text: str, schema: StructType, *, parameter: str) -> Predicate:
    """The predicate that SQL `text` is on rows of `schema`; `parameter` names it in errors.

    Raises:
        InvalidRequestError: it does not parse, names an unknown column, is not boolean, or has not one value for each
            row, whenever it is computed.
    """
    rows = no_rows(spark, schema).alias(TARGET)
    with settings(spark, _KEEP_IN_LISTS):
        filtered = _filtered(rows, text, parameter)
        plan = _plan(filtered)
        _check_deterministic(plan.analyzed(), text, parameter)
        optimized = _optimized(plan, text, parameter)
        match optimized.getClass().getSimpleName():
            case "Filter":
                nodes = iter(json.loads(optimized.condition().toJSON()))
                return _Reader(schema, _zone(spark)).read(nodes)
            case "LocalRelation":
                return Constant(truth=False)
            case "LogicalRDD":
                return Constant(truth=True)
            case _:
                return Unknown(frozenset((name,) for name in schema.names))


def _filtered(rows: DataFrame, text: str, parameter: str) -> DataFrame:
    try:
        return rows.where(text)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequestError(
            f"{parameter} is not a predicate on this table: {first_line(error)}",
            remedy=f"Correct {parameter}: {text!r}. The table has the columns {', '.join(rows.columns)}.",
        ) from error


def _plan(frame: DataFrame) -> Any:
    execution: Any = frame._jdf
    return execution.queryExecution()


def _optimized(plan: Any, text: str, parameter: str) -> Any:
    """The plan after constant folding, which computes what the text says of values alone, such as a cast."""
    try:
        return plan.optimizedPlan()
    except PySparkException as error:
        raise InvalidRequestError(
            f"{parameter} cannot be computed: {first_line(error)}", remedy=f"Correct {parameter}: {text!r}."
        ) from error


def _check_deterministic(analyzed: Any, text: str, parameter: str) -> None:
    condition = analyzed.condition() if analyzed.getClass().getSimpleName() == "Filter" else None
    if condition is None:
        return
    if not condition.deterministic():
        raise InvalidRequestError(
            f"{parameter} is not deterministic: {text!r}.", remedy="Leave out rand(), uuid() and the like."
        )
    nodes = json.loads(condition.toJSON())
    kinds = [_kind(node) for node in nodes]
    if any("Subquery" in kind or kind == "Exists" for kind in kinds):
        raise InvalidRequestError(
            f"{parameter} holds a subquery: {text!r}.",
            remedy="Compute the values first and write them into the predicate.",
        )
    moving = next((_MOVING[kind] for kind in kinds if kind in _MOVING), None) or _moving_text(nodes, text)
    if moving is not None:
        raise InvalidRequestError(
            f"{parameter} asks for {moving}, which may be another value each time it is computed, as one task does "
            f"several times: {text!r}.",
            remedy="Write the value itself. A DAG can template it, as in TIMESTAMP '{{ ts }}' or DATE '{{ ds }}'.",
        )


def _moving_text(nodes: list[dict[str, Any]], text: str) -> str | None:
    """The text, such as 'today', of which the predicate makes another time each day; None where there is none."""
    # In pre-order the first child of an expression follows it.
    made_of = [child for node, child in pairwise(nodes) if _kind(node) in _MAKES_TIMES and _kind(child) == "Literal"]
    found = [_MOVING_TEXT.match(str(child.get("value"))) for child in made_of]
    said = next(filter(None, [*found, _MOVING_LITERAL.search(text)]), None)
    return None if said is None else f"'{said[1]}'"


def _zone(spark: SparkSession) -> ZoneInfo | None:
    """The session's time zone, in which Spark writes timestamp literals; None where Python does not know it."""
    try:
        return ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return None


class _UnreadError(Exception):
    """A node is no column or no literal."""


class _Reader:
    """Reads one condition from its nodes."""

    def __init__(self, schema: StructType, zone: ZoneInfo | None) -> None:
        self._schema = schema
        self._zone = zone

    def read(self, nodes: Iterator[dict[str, Any]]) -> Predicate:
        return self._predicate(_tree(nodes))

    def _predicate(self, node: _Node) -> Predicate:
        match node.kind, node.children:
            case "And", [left, right]:
                return And((self._predicate(left), self._predicate(right)))
            case "Or", [left, right]:
                return Or((self._predicate(left), self._predicate(right)))
            case "Not", [child]:
                return Not(self._predicate(child))
            case _:
                try:
                    return self._leaf(node)
                except _UnreadError:
                    return Unknown(frozenset(_attributes(node)))

    def _leaf(self, node: _Node) -> Predicate:
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
                raise _UnreadError

    def _comparison(self, operator: Operator, left: _Node, right: _Node) -> Predicate:
        if left.kind == "Literal":
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        column, data_type = self._column(left)
        return Comparison(column=column, operator=operator, literal=self._literal(right, data_type))

    def _column(self, node: _Node) -> tuple[Path, DataType]:
        path = _path(node)
        if path is None:
            raise _UnreadError
        data_type: DataType = self._schema
        spelled = []
        for name in path:
            field = data_type.find(name) if isinstance(data_type, StructType) else None
            if field is None:
                raise _UnreadError
            spelled.append(field.name)
            data_type = field.type
        return tuple(spelled), data_type

    def _literal(self, node: _Node, data_type: DataType) -> Any:
        if node.kind != "Literal" or node.body.get("value") is None:
            raise _UnreadError
        if not isinstance(node.body["dataType"], str) or parse_type(node.body["dataType"]) != data_type:
            raise _UnreadError
        value = self._parsed(str(node.body["value"]), node.body["dataType"])
        if not literal_fits(value, data_type):
            raise _UnreadError
        return value

    def _parsed(self, text: str, name: str) -> Any:
        try:
            match name:
                case "string":
                    return text
                case "byte" | "short" | "integer" | "long":
                    return int(text)
                case "float" | "double":
                    # The text is the shortest that names the value among those of its width.
                    return nearest_single(float(text)) if name == "float" else float(text)
                case "boolean":
                    return text == "true"
                case "date":
                    return date.fromisoformat(text)
                case "timestamp":
                    return self._moment(text)
                case "timestamp_ntz":
                    # Spark writes microseconds since 1970 on the clock of no zone.
                    return datetime(1970, 1, 1) + timedelta(microseconds=int(text))  # noqa: DTZ001  it has no zone
                case _ if name.startswith("decimal"):
                    return Decimal(text)
        except (ValueError, ArithmeticError) as error:
            raise _UnreadError from error
        raise _UnreadError

    def _moment(self, text: str) -> datetime:
        """A timestamp literal, unless the session's clock shows that hour twice or never."""
        local = datetime.fromisoformat(text)
        if self._zone is None or local.tzinfo is not None:
            raise _UnreadError
        first, second = (local.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        if first.utcoffset() != second.utcoffset():
            raise _UnreadError
        return first.astimezone(UTC)


class _Node:
    """An expression with its children."""

    __slots__ = ("body", "children", "kind")

    def __init__(self, body: dict[str, Any], children: list[_Node]) -> None:
        self.body = body
        self.children = children
        self.kind = _kind(body)


def _tree(nodes: Iterator[dict[str, Any]]) -> _Node:
    body = next(nodes)
    return _Node(body, [_tree(nodes) for _ in range(body["num-children"])])


def _kind(body: dict[str, Any]) -> str:
    return str(body["class"]).rpartition(".")[2]


def _path(node: _Node) -> Path | None:
    if node.kind == "AttributeReference":
        return (node.body["name"],)
    if node.kind == "GetStructField" and node.body.get("name"):
        parent = _path(node.children[0])
        return None if parent is None else (*parent, node.body["name"])
    return None


def _attributes(node: _Node) -> Iterator[Path]:
    if node.kind == "AttributeReference":
        yield (node.body["name"],)
    for child in node.children:
        yield from _attributes(child)


def reads_only(predicate: Predicate, columns: tuple[str, ...]) -> bool:
    """Whether the predicate can be decided from these columns alone."""
    known = {c.lower() for c in columns}
    return all(path[0].lower() in known for path in columns_of(predicate))
