"""The conditions that the ON of a merge implies for each side alone.

Spark's optimizer finds them. It moves the conditions on the target below the join, infers more of them from equalities,
and leaves the equalities themselves. The conditions on the target skip files. The equalities give the keys, and the
values of the keys in the source skip more files. Only certain conditions are used; all others skip no file.
delta-spark prunes by the conjuncts of ON on the target, and not by the source's keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from deltalite.columnar.predicates.predicate import Constant, Path, Predicate, conjunction
from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.schema import DataType, PrimitiveType, StructType, holds_char, member_at, parse_type
from deltalite.protocol.schema_evolution import fits
from deltalite.spark.columns.names import SOURCE, TARGET, named
from deltalite.spark.columns.types import from_spark, spark_type
from deltalite.spark.expressions.catalyst import ConditionNode, kind_of, nodes_of, query_execution
from deltalite.spark.expressions.predicates import KEEP_IN_LISTS, optimized_plan, predicate_of
from deltalite.spark.expressions.sql import Expressions, no_rows, no_rows_of, of_the_request
from deltalite.spark.runtime.session import settings

_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A column of the target (its logical name) that equals `source` in every match.

    `source` is a column of the source rows with the type `type`. With `null_safe` a null matches a null. With `is_char`
    the files may hold the texts of the target without trailing blanks.
    """

    target: Path
    target_type: DataType
    source: Column
    type: DataType
    null_safe: bool
    is_char: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCondition:
    """ON as a column, the predicate that it implies for the target, its keys, and the source columns that it reads."""

    column: Column
    on_target: Predicate
    keys: tuple[KeyPair, ...]
    source_columns: tuple[str, ...]


def join_condition(spark: SparkSession, text: str, target: StructType, source: DataFrame) -> JoinCondition:
    """Parse and analyze ON.

    Raises:
        InvalidRequestError: it does not parse, names unknown columns, is not boolean, is not deterministic, or holds a
            subquery.
    """
    left = no_rows(spark, target).alias(TARGET)
    right = no_rows_of(spark, source.schema).alias(SOURCE)
    both = left.crossJoin(right)
    column = Expressions.of_request(both).condition(text, of_the_request("condition on", text, parameter="on"))
    read = _source_columns(both.where(column), right)
    with settings(spark, KEEP_IN_LISTS):
        plan = optimized_plan(left.join(right, column), text, "on")
    nothing_known = JoinCondition(column=column, on_target=Constant(truth=True), keys=(), source_columns=read)
    while plan.getClass().getSimpleName() == "Project":
        plan = plan.child()
    if plan.getClass().getSimpleName() == "LocalRelation":
        return JoinCondition(column=column, on_target=Constant(truth=False), keys=(), source_columns=read)
    if plan.getClass().getSimpleName() != "Join":
        return nothing_known
    ids = {plan.left().output().apply(n).exprId().id() for n in range(plan.left().output().size())}
    filters = _filters(plan.left())
    on_target = conjunction([predicate_of(spark, condition, target) for condition in filters])
    keys = (
        ()
        if plan.condition().isEmpty()
        else tuple(_keys(plan.condition().get(), ids, target, from_spark(source.schema)))
    )
    return JoinCondition(column=column, on_target=on_target, keys=keys, source_columns=read)


def _filters(plan: Any) -> list[Any]:
    """Return the conditions of the filters at the top of a plan."""
    conditions = []
    while plan.getClass().getSimpleName() in ("Filter", "Project"):
        if plan.getClass().getSimpleName() == "Filter":
            conditions.append(plan.condition())
        plan = plan.child()
    return conditions


def _source_columns(filtered: DataFrame, source: DataFrame) -> tuple[str, ...]:
    """Return the columns of the source that a condition reads."""
    output = query_execution(source).analyzed().output()
    ids = {output.apply(n).exprId().id() for n in range(output.size())}
    nodes = nodes_of(query_execution(filtered).analyzed().condition())
    names = [n["name"] for n in nodes if kind_of(n) == "AttributeReference" and n["exprId"]["id"] in ids]
    return tuple(dict.fromkeys(names))


def _keys(condition: Any, target_ids: set[int], target: StructType, source: StructType) -> Iterator[KeyPair]:
    for node in _conjuncts(ConditionNode.parse(condition)):
        if node.kind not in ("EqualTo", "EqualNullSafe"):
            continue
        left, right = node.children
        if left.ids() <= target_ids and right.ids().isdisjoint(target_ids):
            pair = _pair(left, right, target, source, null_safe=node.kind == "EqualNullSafe")
        elif right.ids() <= target_ids and left.ids().isdisjoint(target_ids):
            pair = _pair(right, left, target, source, null_safe=node.kind == "EqualNullSafe")
        else:
            pair = None
        if pair is not None:
            yield pair


def _conjuncts(node: ConditionNode) -> Iterator[ConditionNode]:
    if node.kind == "And":
        for child in node.children:
            yield from _conjuncts(child)
    else:
        yield node


def _pair(
    target_side: ConditionNode, source_side: ConditionNode, target: StructType, source: StructType, *, null_safe: bool
) -> KeyPair | None:
    """Return the key if each side is a column, or a column cast to a type that holds all of its values."""
    path, value = (_uncast(target_side, target) or target_side).path(), _value(source_side, source)
    member = None if path is None else member_at(target, path)
    if member is None or value is None:
        return None
    column = target.find(member[0][0])
    return KeyPair(
        target=member[0],
        target_type=member[1],
        source=value[0],
        type=value[1],
        null_safe=null_safe,
        is_char=column is not None and holds_char(column),
    )


def _uncast(node: ConditionNode, schema: StructType) -> ConditionNode | None:
    """Return the operand of a cast to a type that holds all of its values, else None."""
    if node.kind != "Cast":
        return None
    (child,) = node.children
    path, cast_type = child.path(), _type_of_cast(node)
    member = None if path is None else member_at(schema, path)
    return child if member is not None and cast_type is not None and fits(member[1], cast_type) else None


def _value(node: ConditionNode, schema: StructType) -> tuple[Column, DataType] | None:
    """Return a column of the source, or a cast of one that never fails, with its type."""
    if node.kind == "Cast":
        (child,) = node.children
        value, cast_type = _value(child, schema), _type_of_cast(node)
        if value is None or cast_type is None or not (fits(value[1], cast_type) or _is_day_of(value[1], cast_type)):
            return None
        return value[0].cast(spark_type(cast_type)), cast_type
    path = node.path()
    member = None if path is None else member_at(schema, path)
    if member is None:
        return None
    (first, *rest), data_type = member
    return reduce(Column.getField, rest, named(first)), data_type


def _type_of_cast(node: ConditionNode) -> DataType | None:
    try:
        return parse_type(node.body["dataType"])
    except UnsupportedFeatureError:
        return None


def _is_day_of(source: DataType, target: DataType) -> bool:
    return isinstance(source, PrimitiveType) and source.name in _TIMES and target == PrimitiveType("date")
