"""The clauses of a merge as actions, and the schema that the table has after the merge.

`*` assigns each source column to the target column of the same name. For other columns, `merge_schema` decides:

- Without it, the source must have all columns of the table, except generated, default and IDENTITY columns. Columns
  that only the source has are ignored.
- With it, columns that only the source has are added to the table.

If the source lacks a generated column, the table computes the value. For any other column that the source lacks, an
update keeps the value, and an insert writes the default, the next IDENTITY value or NULL.

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
from deltalite.requests.rows import Assignments
from deltalite.spark.columns.names import SOURCE, TARGET, quoted
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.catalyst import columns_read_from
from deltalite.spark.expressions.sql import no_rows, no_rows_of_source
from deltalite.spark.row_changes.row_actions import AssignedValue, Path, RowAction, RowActionResolver, assigned_path


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeActions:
    """The actions of the three kinds of clauses, by number. The numbers are unique over all kinds."""

    matched: Mapping[int, RowAction]
    not_matched_by_source: Mapping[int, RowAction]
    not_matched: Mapping[int, RowAction]

    @property
    def all(self) -> dict[int, RowAction]:
        """All actions by number."""
        return {**self.matched, **self.not_matched_by_source, **self.not_matched}


def evolved_schema(request: MergeRequest, table: StructType, source: StructType, *, widens: bool = False) -> StructType:
    """Return the schema of the table after the merge.

    Without `merge_schema`, the schema does not change. With `merge_schema`:

    - If a clause has `*`, the table gets all columns that only the source has. With `widens`, its existing columns also
      get the wider types of the source (`widens_automatically`).
    - Otherwise the table gets the columns that a clause assigns and that the source has.

    Raises:
        SchemaMismatchError: a new column has the type void.
    """
    if not request.merge_schema:
        return table
    clauses = (*request.when_matched, *request.when_not_matched)
    all_assignments = [assignments for clause in clauses for assignments in (clause.update, clause.insert)]
    if ALL_COLUMNS in all_assignments:
        return with_new_columns(table, source, widens=widens)
    names = [name for assignments in all_assignments if assignments is not None for name in assignments]
    for path in [assigned_path(name, table) for name in names]:
        new_column = _field_on_path(source, path) if path and member_at(table, path) is None else None
        table = table if new_column is None else with_new_columns(table, StructType((new_column,)))
    return table


def _field_on_path(struct: StructType, path: Path) -> StructField | None:
    """Return the field `path[0]`, whose type keeps only the members that the path names.

    For the path `a.b`, the result is the struct `a` with the single member `b`. The result is None if the struct lacks
    a field of the path.
    """
    field = struct.find(path[0])
    if field is None or len(path) == 1:
        return field
    member = _field_on_path(field.type, path[1:]) if isinstance(field.type, StructType) else None
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
    """Resolve all clauses, and return their actions.

    `base_schema` and `schema` are the table's columns before and after the merge.

    Raises:
        InvalidRequestError: a condition or value is wrong, a column does not exist, or an update sets an IDENTITY
            column.
        SchemaMismatchError: a value has a type that its column cannot take, the source lacks a column, or an insert
            sets a column that is GENERATED ALWAYS AS IDENTITY.
        UnsupportedFeatureError: the default of a column cannot be computed.
    """
    target = no_rows(spark, base_schema).alias(TARGET)
    no_source_rows = no_rows_of_source(source)
    star = _StarResolver(from_spark(source.schema), schema, rules, source_may_lack_columns=request.merge_schema)
    rows_by_parameter = {
        "when_matched": target.crossJoin(no_source_rows),
        "when_not_matched_by_source": target,
        "when_not_matched": no_source_rows,
    }
    actions_by_kind = []
    first_number = 0
    for parameter, rows in rows_by_parameter.items():
        resolver = RowActionResolver(
            rows, base_schema=base_schema, schema=schema, rules=rules, fills_missing=request.merge_schema
        )
        clauses: Sequence[MergeClause] = getattr(request, parameter)
        actions = [_action(resolver, clause, star, f"{parameter}[{n}]") for n, clause in enumerate(clauses)]
        actions_by_kind.append(dict(enumerate(actions, first_number)))
        first_number += len(clauses)
    matched, not_matched_by_source, not_matched = actions_by_kind
    return MergeActions(matched=matched, not_matched_by_source=not_matched_by_source, not_matched=not_matched)


def updates_read_target(
    spark: SparkSession, source: DataFrame, base_schema: StructType, updates: Sequence[RowAction]
) -> bool:
    """Whether a value of the `when_matched` updates reads a column of the table."""
    values = [value for action in updates for value in action.values]
    if not values:
        return False
    target = no_rows(spark, base_schema).alias(TARGET)
    pairs = target.crossJoin(no_rows_of_source(source))
    return bool(columns_read_from(target, pairs.where(F.struct(*values).isNotNull())))


def _action(resolver: RowActionResolver, clause: MergeClause, star: _StarResolver, parameter: str) -> RowAction:
    if clause.delete:
        return resolver.delete_action(clause.condition, parameter)
    if clause.update is not None:
        update = _assigned_values(resolver, clause.update, star, f"{parameter}.update")
        return resolver.update_action(clause.condition, update, parameter)
    insert = _assigned_values(resolver, clause.insert or {}, star, f"{parameter}.insert")
    return resolver.insert_action(clause.condition, insert, parameter)


def _assigned_values(
    resolver: RowActionResolver, assignments: str | Assignments, star: _StarResolver, parameter: str
) -> dict[Path, AssignedValue]:
    if isinstance(assignments, str):
        return star.assigned_values(parameter)
    return resolver.assignments(assignments, parameter)


class _StarResolver:
    """Resolves `*` to the columns of the source."""

    def __init__(
        self, source: StructType, schema: StructType, rules: ColumnRules, *, source_may_lack_columns: bool
    ) -> None:
        self._source = source
        self._schema = schema
        self._optional_columns = frozenset(schema.names) if source_may_lack_columns else rules.filled_columns

    def assigned_values(self, parameter: str) -> dict[Path, AssignedValue]:
        """Return the source columns that the table has too, by the path of the table's column.

        Raises:
            SchemaMismatchError: the source lacks a column that it must have.
        """
        values: dict[Path, AssignedValue] = {}
        for field in self._schema:
            source_field = self._source.find(field.name)
            if source_field is not None:
                value = F.col(f"{SOURCE}.{quoted(source_field.name)}")
                values[(field.name,)] = AssignedValue(value=value, type=source_field.type)
            elif field.name not in self._optional_columns:
                raise SchemaMismatchError(
                    f"{parameter} is '{ALL_COLUMNS}', but the source has no column '{field.name}'. The source has the "
                    f"columns {', '.join(self._source.names)}.",
                    remedy="Add the column in `query`, name the columns and their values, or set merge_schema=True.",
                )
        return values
