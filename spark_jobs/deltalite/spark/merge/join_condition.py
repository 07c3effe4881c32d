"""The conditions that the ON of a merge implies for each side alone.

Spark's optimizer finds these conditions: it moves the conditions on the target below the join, and infers more
conditions from equalities. The conditions on the target skip files. The equalities give the keys. The source's values
of the keys skip more files (`source_keys`). A condition that has no exact predicate skips no file. delta-spark prunes
by the conjuncts of ON on the target, and not by the source's keys.
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
from deltalite.spark.columns.names import TARGET, column_named
from deltalite.spark.columns.types import from_spark, spark_type
from deltalite.spark.expressions.catalyst import ConditionNode, columns_read_from
from deltalite.spark.expressions.predicates import KEEP_IN_LISTS, optimized_plan, predicate_of
from deltalite.spark.expressions.sql import Expressions, no_rows, no_rows_of_source, request_error_builder
from deltalite.spark.runtime.session import settings

_TIMESTAMP_TYPES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A column of the target that equals a value of the source in every match.

    - `target`: the logical path of the target column.
    - `source`: a column of the source, perhaps with casts.
    - `null_safe`: whether a null matches a null.
    - `is_char`: whether the files may hold the texts of the target column without trailing blanks.
    """

    target: Path
    target_type: DataType
    source: Column
    source_type: DataType
    null_safe: bool
    is_char: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCondition:
    """The condition ON of a merge.

    - `column`: ON as a column.
    - `on_target`: the predicate that ON implies for the target.
    - `keys`: the equalities of a target column and a source value.
    - `source_columns`: the names of the source columns that ON reads.
    """

    column: Column
    on_target: Predicate
    keys: tuple[KeyPair, ...]
    source_columns: tuple[str, ...]


def join_condition(spark: SparkSession, text: str, target: StructType, source: DataFrame) -> JoinCondition:
    """Parse and analyze the SQL `text` of the condition ON, and return the condition.

    Raises:
        InvalidRequestError: ON does not parse, names unknown columns, is not boolean, is not deterministic, or holds a
            subquery.
    """
    left = no_rows(spark, target).alias(TARGET)
    right = no_rows_of_source(source)
    pairs = left.crossJoin(right)
    column = Expressions.of_request(pairs).condition(text, request_error_builder("condition on", text, parameter="on"))
    read_columns = columns_read_from(right, pairs.where(column))
    with settings(spark, KEEP_IN_LISTS):
        plan = optimized_plan(left.join(right, column), text, "on")
    while plan.getClass().getSimpleName() == "Project":
        plan = plan.child()
    if plan.getClass().getSimpleName() == "LocalRelation":  # ON is false for all rows
        return JoinCondition(column=column, on_target=Constant(truth=False), keys=(), source_columns=read_columns)
    if plan.getClass().getSimpleName() != "Join":
        return JoinCondition(column=column, on_target=Constant(truth=True), keys=(), source_columns=read_columns)
    target_ids = {plan.left().output().apply(n).exprId().id() for n in range(plan.left().output().size())}
    filters = _filters(plan.left())
    on_target = conjunction([predicate_of(spark, condition, target) for condition in filters])
    keys = (
        ()
        if plan.condition().isEmpty()
        else tuple(_keys(plan.condition().get(), target_ids, target, from_spark(source.schema)))
    )
    return JoinCondition(column=column, on_target=on_target, keys=keys, source_columns=read_columns)


def _filters(plan: Any) -> list[Any]:
    """Return the conditions of the filters at the top of a plan."""
    conditions = []
    while plan.getClass().getSimpleName() in ("Filter", "Project"):
        if plan.getClass().getSimpleName() == "Filter":
            conditions.append(plan.condition())
        plan = plan.child()
    return conditions


def _keys(condition: Any, target_ids: set[int], target: StructType, source: StructType) -> Iterator[KeyPair]:
    """Yield the keys from the equalities of a condition. `target_ids` are Catalyst's ids of the target's columns."""
    for node in _conjuncts(ConditionNode.parse(condition)):
        if node.kind not in ("EqualTo", "EqualNullSafe"):
            continue
        left, right = node.children
        if left.ids() <= target_ids and right.ids().isdisjoint(target_ids):
            key = _key_pair(left, right, target, source, null_safe=node.kind == "EqualNullSafe")
        elif right.ids() <= target_ids and left.ids().isdisjoint(target_ids):
            key = _key_pair(right, left, target, source, null_safe=node.kind == "EqualNullSafe")
        else:
            key = None
        if key is not None:
            yield key


def _conjuncts(node: ConditionNode) -> Iterator[ConditionNode]:
    if node.kind == "And":
        for child in node.children:
            yield from _conjuncts(child)
    else:
        yield node


def _key_pair(
    target_side: ConditionNode, source_side: ConditionNode, target: StructType, source: StructType, *, null_safe: bool
) -> KeyPair | None:
    """Return the key if each side is a column, or a cast of a column that never fails; else None.

    A cast of the target column must keep all values of the column. A cast of the source column may also be from a
    timestamp to a date.
    """
    path = (_operand_of_cast(target_side, target) or target_side).path()
    member = None if path is None else member_at(target, path)
    source_value = _source_value(source_side, source)
    if member is None or source_value is None:
        return None
    target_path, target_type = member
    source_column, source_type = source_value
    column = target.find(target_path[0])
    return KeyPair(
        target=target_path,
        target_type=target_type,
        source=source_column,
        source_type=source_type,
        null_safe=null_safe,
        is_char=column is not None and holds_char(column),
    )


def _operand_of_cast(node: ConditionNode, schema: StructType) -> ConditionNode | None:
    """Return the column below a cast that keeps all values of the column; None for any other node."""
    if node.kind != "Cast":
        return None
    (child,) = node.children
    path, cast_type = child.path(), _type_of_cast(node)
    member = None if path is None else member_at(schema, path)
    return child if member is not None and cast_type is not None and fits(member[1], cast_type) else None


def _source_value(node: ConditionNode, schema: StructType) -> tuple[Column, DataType] | None:
    """Return a column of the source, or a cast of a column that never fails, with its type. None for other nodes."""
    if node.kind == "Cast":
        (child,) = node.children
        value, cast_type = _source_value(child, schema), _type_of_cast(node)
        if value is None or cast_type is None:
            return None
        column, column_type = value
        if not (fits(column_type, cast_type) or _is_timestamp_to_date(column_type, cast_type)):
            return None
        return column.cast(spark_type(cast_type)), cast_type
    path = node.path()
    member = None if path is None else member_at(schema, path)
    if member is None:
        return None
    (column_name, *member_names), data_type = member
    return reduce(Column.getField, member_names, column_named(column_name)), data_type


def _type_of_cast(node: ConditionNode) -> DataType | None:
    try:
        return parse_type(node.body["dataType"])
    except UnsupportedFeatureError:
        return None


def _is_timestamp_to_date(source: DataType, target: DataType) -> bool:
    return isinstance(source, PrimitiveType) and source.name in _TIMESTAMP_TYPES and target == PrimitiveType("date")
