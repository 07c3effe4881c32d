"""The clauses of a merge as actions, each resolved against the rows that it may use, and the resulting schema.

`*` means the source column of the same name. Without schema evolution the source must have all columns of the table
except generated, default and IDENTITY columns, and its other columns are ignored. With schema evolution new source
columns are added; for a column that the source lacks, an update keeps the value and an insert fills it.
delta-spark: DeltaMergeInto, schema evolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import StructField, StructType, member_at
from deltalite.protocol.schema_evolution import with_new_columns
from deltalite.requests import ALL_COLUMNS, MergeClause, MergeRequest
from deltalite.spark.columns.names import SOURCE, TARGET, quoted
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.sql import no_rows, no_rows_of
from deltalite.spark.row_changes.row_actions import AssignedValue, Path, RowAction, RowActions, assigned_path


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeActions:
    """The actions of the three kinds of clauses, by number. The numbers are unique over all kinds."""

    matched: Mapping[int, RowAction]
    by_source: Mapping[int, RowAction]
    not_matched: Mapping[int, RowAction]

    @property
    def all(self) -> dict[int, RowAction]:
        """All actions by number."""
        return {**self.matched, **self.by_source, **self.not_matched}


def evolved_schema(request: MergeRequest, table: StructType, source: StructType, *, widens: bool = False) -> StructType:
    """Return the schema of the table after the merge.

    With `merge_schema` the table gets new columns. With `widens` too, and a clause of `*`, its columns get the wider
    types of the source.

    Raises:
        SchemaMismatchError: a new column has no type.
    """
    if not request.merge_schema:
        return table
    values = [one for c in (*request.when_matched, *request.when_not_matched) for one in (c.update, c.insert) if one]
    if any(isinstance(one, str) for one in values):
        return with_new_columns(table, source, widens=widens)
    paths = [assigned_path(column, table) for one in values if not isinstance(one, str) for column in one]
    for path in paths:
        new = _narrowed(source, path) if path and member_at(table, path) is None else None
        table = table if new is None else with_new_columns(table, StructType((new,)))
    return table


def _narrowed(struct: StructType, path: Path) -> StructField | None:
    """Return the first field of a path, reduced to the members on the path."""
    field = struct.find(path[0])
    if field is None or len(path) == 1:
        return field
    member = _narrowed(field.type, path[1:]) if isinstance(field.type, StructType) else None
    return None if member is None else replace(field, type=StructType((member,)))


def merge_actions(
    spark: SparkSession,
    request: MergeRequest,
    source: DataFrame,
    *,
    base_schema: StructType,
    schema: StructType,
    rules: ColumnRules,
) -> MergeActions:
    """Resolve all clauses.

    Raises:
        InvalidRequestError: a condition or value is wrong, or a column does not exist.
        SchemaMismatchError: a value has a type that its column cannot take, or the source lacks a column.
    """
    target = no_rows(spark, base_schema).alias(TARGET)
    incoming = no_rows_of(spark, source.schema).alias(SOURCE)
    names = ("when_matched", "when_not_matched_by_source", "when_not_matched")
    by_kind = []
    first = 0
    for name, rows in zip(names, (target.crossJoin(incoming), target, incoming), strict=True):
        resolver = RowActions(rows, base_schema=base_schema, schema=schema, rules=rules, fills=request.merge_schema)
        clauses: Sequence[MergeClause] = getattr(request, name)
        star = _Star(from_spark(source.schema), schema, rules, is_lenient=request.merge_schema)
        by_kind.append({first + n: _action(resolver, one, star, f"{name}[{n}]") for n, one in enumerate(clauses)})
        first += len(clauses)
    matched, by_source, not_matched = by_kind
    return MergeActions(matched=matched, by_source=by_source, not_matched=not_matched)


def _action(resolver: RowActions, clause: MergeClause, star: _Star, name: str) -> RowAction:
    if clause.delete:
        return resolver.delete(clause.condition, name)
    if clause.update is not None:
        update = _assigned_values(resolver, clause.update, star, f"{name}.update")
        return resolver.update(clause.condition, update, name)
    insert = _assigned_values(resolver, clause.insert or {}, star, f"{name}.insert")
    return resolver.insert(clause.condition, insert, name)


def _assigned_values(
    resolver: RowActions, values: str | Mapping[str, str], star: _Star, name: str
) -> dict[Path, AssignedValue]:
    return star.assigned_values(name) if isinstance(values, str) else resolver.assignments(values, name)


class _Star:
    """Resolves `*` to the columns of the source."""

    def __init__(self, source: StructType, schema: StructType, rules: ColumnRules, *, is_lenient: bool) -> None:
        self._source = source
        self._schema = schema
        self._may_lack = frozenset(schema.names) if is_lenient else rules.filled_columns

    def assigned_values(self, name: str) -> dict[Path, AssignedValue]:
        """Return the source column for each column of the table."""
        values: dict[Path, AssignedValue] = {}
        for field in self._schema:
            source_field = self._source.find(field.name)
            if source_field is not None:
                value = F.col(f"{SOURCE}.{quoted(source_field.name)}")
                values[(field.name,)] = AssignedValue(value=value, type=source_field.type)
            elif field.name not in self._may_lack:
                raise SchemaMismatchError(
                    f"{name} is '{ALL_COLUMNS}', and the source has no column '{field.name}'. It has: "
                    f"{', '.join(self._source.names)}.",
                    remedy="Add it in `query`, name the columns and their values, or set merge_schema=True.",
                )
        return values
