"""The actions of a request on single rows, as Spark columns: the condition, and the new row.

An action is resolved against the schema of its rows before a row is read. So wrong names, types and functions are found
early, and the error names the parameter and the text. A value is an expression over the old row, the source row or
both. An update may also set a single member of a struct. The table computes a generated column if an action does not
name the column, or sets it to DEFAULT. This also holds for an IDENTITY column in an insert. An update must not name an
IDENTITY column. For any other column, DEFAULT is the column's default, or NULL without a default.

delta-spark: DeltaUpdateTable, DeltaMergeIntoClause. Spark: ResolveColumnDefault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.columnar.statistics.footer import parse_column_list
from deltalite.errors import InvalidRequestError, SchemaMismatchError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import DataType, StructType, member_at
from deltalite.protocol.schema_evolution import VOID
from deltalite.spark.columns.assigning import assign_value, convert_once
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.names import TARGET, quoted
from deltalite.spark.columns.types import spark_type
from deltalite.spark.expressions.sql import Expressions, no_rows, request_error_builder, table_error_builder

_DEFAULT = "DEFAULT"
Path = tuple[str, ...]
"""The names that lead to a column or a member of a struct: `('a', 'b')` is the member `b` of the column `a`."""


def is_default(text: str) -> bool:
    """Whether a value is the word DEFAULT: the keyword, or the name of a column."""
    return text.strip().upper() == _DEFAULT


class ActionKind(Enum):
    """The kind of an action."""

    UPDATE = auto()
    DELETE = auto()
    INSERT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """An action on the rows for which `condition` is true, or on every row without a condition.

    `values` has a value for each column of the table, in order; it is empty for a delete. `set_columns` are the columns
    that the request sets to a value, and does not leave to the table.
    """

    kind: ActionKind
    condition: Column | None = None
    values: tuple[Column, ...] = ()
    set_columns: frozenset[str] = frozenset()

    @property
    def new_row(self) -> Column:
        """The new row as a struct."""
        return F.struct(*self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedValue:
    """A value for a column, with its type.

    `is_non_deterministic` is true if two computations of `value` may differ. `is_computed` is true if the table
    computes the value.
    """

    value: Column
    type: DataType
    is_non_deterministic: bool = False
    is_computed: bool = False


class RowActionResolver:
    """Resolves the actions on rows of one table.

    The methods raise these errors:

    - InvalidRequestError: a name or an SQL text is wrong, two values overlap, or an action must not set a column.
    - SchemaMismatchError: a column cannot take its value.
    - UnsupportedFeatureError: a default cannot be computed.

    Args:
        rows: a frame with the columns that the actions may use. The table's columns have the alias `target`.
        base_schema: the table's columns before the operation.
        schema: the table's columns after the operation.
        rules: the rules of the table's columns.
        fills_missing: whether the value of a struct may lack members. Such members become null, or keep their values
            in an update.
    """

    def __init__(
        self,
        rows: DataFrame,
        *,
        base_schema: StructType,
        schema: StructType,
        rules: ColumnRules,
        fills_missing: bool = False,
    ) -> None:
        self._expressions = Expressions.of_request(rows)
        self._default_expressions = Expressions.of_table(rows.sparkSession, StructType(()))
        self._base_schema = base_schema
        self._schema = schema
        self._rules = rules
        self._fills_missing = fills_missing

    @classmethod
    def on_table(cls, spark: SparkSession, schema: StructType, rules: ColumnRules) -> RowActionResolver:
        """Return a resolver for actions that use only the table's rows."""
        return cls(no_rows(spark, schema).alias(TARGET), base_schema=schema, schema=schema, rules=rules)

    def condition(self, text: str | None, parameter: str) -> Column | None:
        """Return the condition as a column. A null result counts as false."""
        if text is None:
            return None
        return self._expressions.condition(text, request_error_builder("condition", text, parameter=parameter))

    def delete_action(self, condition: str | None, parameter: str) -> RowAction:
        """Return the action that deletes a row."""
        return RowAction(kind=ActionKind.DELETE, condition=self.condition(condition, parameter))

    def update_action(
        self, condition: str | None, assignments: Mapping[Path, AssignedValue], parameter: str
    ) -> RowAction:
        """Return the action that assigns values to columns and keeps all other columns."""
        by_column = self._by_column(assignments, parameter)
        for column in self._rules.identities:
            if column.name in by_column:
                raise InvalidRequestError(
                    f"{parameter} gives a value to the identity column '{column.name}'. Values in an identity column "
                    "never change.",
                    remedy="Leave the column out.",
                )
        by_column = _without_computed(by_column)
        old_columns = conform_columns(self._base_schema, self._schema, target_column)
        values = tuple(
            self._updated(old, field.type, by_column.get(field.name, {}), field.name).alias(field.name)
            for field, old in zip(self._schema, old_columns, strict=True)
        )
        return RowAction(
            kind=ActionKind.UPDATE,
            condition=self.condition(condition, parameter),
            values=values,
            set_columns=frozenset(by_column),
        )

    def insert_action(
        self, condition: str | None, assignments: Mapping[Path, AssignedValue], parameter: str
    ) -> RowAction:
        """Return the action that inserts a row, with a default or NULL for each column without a value."""
        by_column = _without_computed(self._by_column(assignments, parameter))
        self._refuse_identity_values(by_column, parameter)
        values = []
        for field in self._schema:
            values_of_column = by_column.get(field.name)
            if values_of_column is not None and set(values_of_column) != {()}:
                raise InvalidRequestError(
                    f"{parameter} gives values only to members of '{field.name}', but a new row needs the whole "
                    "struct.",
                    remedy="Give the whole struct: named_struct('a', ..., 'b', ...).",
                )
            if values_of_column is not None:
                whole_value = values_of_column[()]
                value = assign_value(
                    whole_value.value,
                    whole_value.type,
                    field.type,
                    field.name,
                    fills_missing=self._fills_missing,
                    is_non_deterministic=whole_value.is_non_deterministic,
                )
            elif field.name in self._rules.defaults:
                value = self._default(field.name, field.type)
            else:
                value = F.lit(None).cast(spark_type(field.type))
            values.append(value.alias(field.name))
        return RowAction(
            kind=ActionKind.INSERT,
            condition=self.condition(condition, parameter),
            values=tuple(values),
            set_columns=frozenset(by_column),
        )

    def assignments(self, texts: Mapping[str, str], parameter: str) -> dict[Path, AssignedValue]:
        """Return the values for columns from their SQL texts, by path."""
        assignments = {}
        for name, text in texts.items():
            path = self._path(name, parameter)
            if path in assignments:
                raise InvalidRequestError(f"{parameter} names the column {name} twice.", remedy="Name it once.")
            if is_default(text) and not self._expressions.has_column(_DEFAULT):
                assignments[path] = self._assigned_default(path, parameter)
                continue
            error_for = request_error_builder(f"value of {name}", text, parameter=parameter)
            value, data_type, is_non_deterministic = self._expressions.typed_value(text, error_for)
            assignments[path] = AssignedValue(value=value, type=data_type, is_non_deterministic=is_non_deterministic)
        return assignments

    def _assigned_default(self, path: Path, parameter: str) -> AssignedValue:
        """Return the value of the keyword DEFAULT for a column."""
        name = path[0]
        if len(path) > 1:
            raise InvalidRequestError(
                f"{parameter} gives DEFAULT to {'.'.join(path)}, but only a whole column has a default.",
                remedy="Write the value, or NULL.",
            )
        if name in self._rules.defaults:
            data_type = next(field.type for field in self._schema if field.name == name)
            # A default may be non-deterministic, such as uuid().
            return AssignedValue(value=self._default(name, data_type), type=data_type, is_non_deterministic=True)
        is_computed = name in self._rules.generated or any(column.name == name for column in self._rules.identities)
        return AssignedValue(value=F.lit(None), type=VOID, is_computed=is_computed)

    def _default(self, name: str, data_type: DataType) -> Column:
        """Return the default of a column that has one."""
        text = self._rules.defaults[name]
        error_for = table_error_builder(f"default of the column '{name}'", text)
        return self._default_expressions.value(text, data_type, error_for, allows_non_determinism=True)[0]

    def _path(self, name: str, parameter: str) -> Path:
        """Return the path of a column or a struct member in the table's spelling."""
        path = assigned_path(name, self._schema)
        member = member_at(self._schema, path) if path else None
        if member is None:
            raise InvalidRequestError(
                f"{parameter} gives a value to {name!r}, which is not a column of the table.",
                remedy=f"The table has the columns {', '.join(self._schema.names)}. Write a member of a struct as a.b, "
                "and put a name with dots or commas into backticks.",
            )
        return member[0]

    def _by_column(
        self, assignments: Mapping[Path, AssignedValue], parameter: str
    ) -> dict[str, dict[Path, AssignedValue]]:
        """Group the values by column, then by the path inside the column. The path () is the whole column."""
        by_column: dict[str, dict[Path, AssignedValue]] = {}
        for path, assignment in assignments.items():
            values, member = by_column.setdefault(path[0], {}), path[1:]
            overlapping = next((m for m in values if m[: len(member)] == member or member[: len(m)] == m), None)
            if overlapping is not None:
                raise InvalidRequestError(
                    f"{parameter} gives values to {'.'.join(path)} and to {'.'.join((path[0], *overlapping))}, but "
                    "one contains the other.",
                    remedy="Keep one of them.",
                )
            values[member] = assignment
        return by_column

    def _updated(
        self, old: Column, data_type: DataType, assignments: Mapping[Path, AssignedValue], path: str
    ) -> Column:
        """Return the value of a column or member after the update."""
        if not assignments:
            return old
        whole_value = assignments.get(())
        if whole_value is not None:
            if self._fills_missing and isinstance(data_type, StructType) and isinstance(whole_value.type, StructType):
                return self._merged_struct(old, data_type, whole_value, path)
            return assign_value(
                whole_value.value,
                whole_value.type,
                data_type,
                path,
                is_non_deterministic=whole_value.is_non_deterministic,
            )
        members = []
        for field in data_type if isinstance(data_type, StructType) else ():
            member_values = {
                (*inner_path,): assignment
                for (name, *inner_path), assignment in assignments.items()
                if name == field.name
            }
            member = self._updated(old.getField(field.name), field.type, member_values, f"{path}.{field.name}")
            members.append(member.alias(field.name))
        return F.struct(*members)

    def _merged_struct(self, old: Column, to_type: StructType, new: AssignedValue, path: str) -> Column:
        """Return the struct `new` as `to_type`, with the old values of the members that `new` lacks."""
        from_type = new.type
        if not isinstance(from_type, StructType) or all(from_type.find(f.name) is not None for f in to_type):
            return assign_value(
                new.value, from_type, to_type, path, fills_missing=True, is_non_deterministic=new.is_non_deterministic
            )
        if new.is_non_deterministic:
            return convert_once(
                new.value,
                lambda item: self._merged_struct(old, to_type, AssignedValue(value=item, type=from_type), path),
            )
        members = []
        for field in to_type:
            source, member_path = from_type.find(field.name), f"{path}.{field.name}"
            if source is None:
                member = old.getField(field.name)
            else:
                new_member = AssignedValue(value=new.value.getField(source.name), type=source.type)
                member = self._updated(old.getField(field.name), field.type, {(): new_member}, member_path)
            members.append(member.alias(field.name))
        return F.when(new.value.isNotNull(), F.struct(*members))

    def _refuse_identity_values(self, by_column: Mapping[str, object], parameter: str) -> None:
        """Refuse values for columns that are GENERATED ALWAYS AS IDENTITY."""
        for column in self._rules.identities:
            if column.name in by_column and not column.allows_explicit:
                raise SchemaMismatchError(
                    f"{parameter} gives a value to '{column.name}', which is GENERATED ALWAYS AS IDENTITY.",
                    remedy="Leave the column out. The table generates its values.",
                )


def _without_computed(by_column: Mapping[str, dict[Path, AssignedValue]]) -> dict[str, dict[Path, AssignedValue]]:
    """Return the values without those that the table computes."""
    return {
        name: values
        for name, values in by_column.items()
        if not any(assignment.is_computed for assignment in values.values())
    }


def assigned_path(name: str, schema: StructType) -> Path:
    """Return the path of an assigned column, without the alias `target`; () if the text is not one name or path."""
    try:
        paths = parse_column_list(name)
    except InvalidRequestError:
        return ()
    path = paths[0] if len(paths) == 1 else ()
    return path[1:] if path and path[0].lower() == TARGET and schema.find(path[0]) is None else path


def action_number(actions: Mapping[int, RowAction]) -> Column:
    """Return the number of the first action with a true condition for a row, or null."""
    cases = F.when(F.lit(False), F.lit(None).cast("int"))
    for number, action in actions.items():
        cases = cases.when(F.lit(True) if action.condition is None else action.condition, F.lit(number))
    return cases


def target_column(name: str) -> Column:
    """Return a column of the table under the alias `target`."""
    return F.col(f"{TARGET}.{quoted(name)}")
