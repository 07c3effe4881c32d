"""The actions of a request on single rows, as Spark columns: the condition, and the new row.

An action is resolved against the schema of its rows before a row is read. So wrong names, types and functions are found
early, and the error has the parameter and the text. Values are expressions over the old row; a struct member may be set
alone. The table computes generated and IDENTITY columns if an action does not name them or sets them to DEFAULT. For
any other column DEFAULT is the column's default, or NULL without one.
delta-spark: DeltaUpdateTable, DeltaMergeIntoClause. Spark: ResolveColumnDefault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.columnar.statistics import parse_column_list
from deltalite.errors import InvalidRequestError, SchemaMismatchError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import DataType, StructType, member_at
from deltalite.protocol.schema_evolution import VOID
from deltalite.spark.columns.assigning import assigned
from deltalite.spark.columns.conforming import conformed_columns
from deltalite.spark.columns.names import TARGET, quoted
from deltalite.spark.columns.types import spark_type
from deltalite.spark.expressions.sql import Expressions, no_rows, of_the_request, of_the_table

_DEFAULT = "DEFAULT"
Path = tuple[str, ...]


def is_default(text: str) -> bool:
    """Whether a value is the keyword DEFAULT, or a column of this name."""
    return text.strip().upper() == _DEFAULT


class ActionKind(Enum):
    """The kind of an action."""

    UPDATE = auto()
    DELETE = auto()
    INSERT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAction:
    """An action on the rows for which `condition` is true, or on every row without a condition.

    `values` has a column for each column of the table, in order; it is empty for a delete. `named` are the columns that
    the request sets. `varies` is true if a value is non-deterministic.
    """

    kind: ActionKind
    condition: Column | None = None
    values: tuple[Column, ...] = ()
    named: frozenset[str] = frozenset()
    varies: bool = False

    @property
    def new_row(self) -> Column:
        """The new row as a struct."""
        return F.struct(*self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value for a column, with its type. `is_made` is true if the table computes the value."""

    value: Column
    type: DataType
    varies: bool = False
    is_made: bool = False


class RowActions:
    """Resolves the actions on rows of one table.

    Args:
        rows: rows of the schema that the actions use; the table's columns have the alias `target`.
        have: the table's columns before the operation.
        schema: the table's columns after the operation.
        rules: the rules of the table's columns.
        fills: whether missing members of a struct become null, or keep their values in an update.
    """

    def __init__(
        self, rows: DataFrame, *, have: StructType, schema: StructType, rules: ColumnRules, fills: bool = False
    ) -> None:
        self._rows = Expressions.of_request(rows)
        self._nothing = Expressions.of_table(rows.sparkSession, StructType(()))
        self._have = have
        self._schema = schema
        self._rules = rules
        self._fills = fills

    @classmethod
    def on_table(cls, spark: SparkSession, schema: StructType, rules: ColumnRules) -> RowActions:
        """Return a resolver for actions that use only the table's rows."""
        return cls(no_rows(spark, schema).alias(TARGET), have=schema, schema=schema, rules=rules)

    def condition(self, text: str | None, parameter: str) -> Column | None:
        """Resolve a condition. A null result counts as false."""
        if text is None:
            return None
        return self._rows.condition(text, of_the_request("condition", text, parameter=parameter))

    def delete(self, condition: str | None, parameter: str) -> RowAction:
        """Return the action that deletes a row."""
        return RowAction(kind=ActionKind.DELETE, condition=self.condition(condition, parameter))

    def update(self, condition: str | None, given: Mapping[Path, Given], parameter: str) -> RowAction:
        """Return the action that sets the given values and keeps the others."""
        by_column = self._by_column(given, parameter)
        for column in self._rules.identities:
            if column.name in by_column:
                raise InvalidRequestError(
                    f"{parameter} gives a value to '{column.name}', an identity column, whose values never change.",
                    remedy="Leave the column out.",
                )
        by_column = _without_made(by_column)
        kept = conformed_columns(self._have, self._schema, of_target)
        values = tuple(
            self._updated(old, field.type, by_column.get(field.name, {}), field.name).alias(field.name)
            for field, old in zip(self._schema, kept, strict=True)
        )
        return RowAction(
            kind=ActionKind.UPDATE,
            condition=self.condition(condition, parameter),
            values=values,
            named=frozenset(by_column),
            varies=any(one.varies for one in given.values()),
        )

    def insert(self, condition: str | None, given: Mapping[Path, Given], parameter: str) -> RowAction:
        """Return the action that inserts a row, with a default or NULL for each column that is not given."""
        by_column = _without_made(self._by_column(given, parameter))
        self._check_may_be_given(by_column, parameter)
        values, varies = [], any(one.varies for one in given.values())
        for field in self._schema:
            own = by_column.get(field.name)
            if own is not None and set(own) != {()}:
                raise InvalidRequestError(
                    f"{parameter} gives a value to a member of '{field.name}' alone, and a new row has no others.",
                    remedy="Give the whole struct: named_struct('a', ..., 'b', ...).",
                )
            if own is not None:
                one = own[()]
                value = assigned(one.value, one.type, field.type, field.name, fills=self._fills, varies=one.varies)
            elif field.name in self._rules.defaults:
                value, varies = self._default(field.name, field.type), True
            else:
                value = F.lit(None).cast(spark_type(field.type))
            values.append(value.alias(field.name))
        return RowAction(
            kind=ActionKind.INSERT,
            condition=self.condition(condition, parameter),
            values=tuple(values),
            named=frozenset(by_column),
            varies=varies,
        )

    def assignments(self, texts: Mapping[str, str], parameter: str) -> dict[Path, Given]:
        """Resolve expressions by column."""
        found = {}
        for name, text in texts.items():
            path = self._path(name, parameter)
            if path in found:
                raise InvalidRequestError(f"{parameter} names the column {name} twice.", remedy="Name it once.")
            if is_default(text) and not self._rows.has_column(_DEFAULT):
                found[path] = self._given_default(path, parameter)
                continue
            failure = of_the_request(f"value of {name}", text, parameter=parameter)
            value, data_type, varies = self._rows.typed(text, failure)
            found[path] = Given(value=value, type=data_type, varies=varies)
        return found

    def _given_default(self, path: Path, parameter: str) -> Given:
        """Return the value of the keyword DEFAULT for a column."""
        name = path[0]
        if len(path) > 1:
            raise InvalidRequestError(
                f"{parameter} gives DEFAULT to {'.'.join(path)}, and only a whole column has a default.",
                remedy="Write the value, or NULL.",
            )
        if name in self._rules.defaults:
            data_type = next(field.type for field in self._schema if field.name == name)
            return Given(value=self._default(name, data_type), type=data_type, varies=True)
        is_made = name in self._rules.generated or any(column.name == name for column in self._rules.identities)
        return Given(value=F.lit(None), type=VOID, is_made=is_made)

    def _default(self, name: str, data_type: DataType) -> Column:
        """Return the default of a column that has one."""
        text = self._rules.defaults[name]
        failure = of_the_table(f"default of the column '{name}'", text)
        return self._nothing.value(text, data_type, failure, varies=True)[0]

    def _path(self, name: str, parameter: str) -> Path:
        """Return the path of a column or a struct member in the table's spelling."""
        path = assigned_path(name, self._schema)
        found = member_at(self._schema, path) if path else None
        if found is None:
            raise InvalidRequestError(
                f"{parameter} gives a value to {name!r}, which is no column of the table.",
                remedy=f"The table has the columns {', '.join(self._schema.names)}; a member of a struct is a.b, and a "
                "name with dots or commas in it stands in backticks.",
            )
        return found[0]

    def _by_column(self, given: Mapping[Path, Given], parameter: str) -> dict[str, dict[Path, Given]]:
        """Group the values by column. The key () is the whole column; other keys are members."""
        found: dict[str, dict[Path, Given]] = {}
        for path, one in given.items():
            others = found.setdefault(path[0], {})
            inside = next((o for o in others if o[: len(path) - 1] == path[1:] or path[1:][: len(o)] == o), None)
            if inside is not None:
                raise InvalidRequestError(
                    f"{parameter} gives values to {'.'.join(path)} and to {'.'.join((path[0], *inside))}, one of which "
                    "holds the other.",
                    remedy="Keep one of them.",
                )
            others[path[1:]] = one
        return found

    def _updated(self, old: Column, data_type: DataType, given: Mapping[Path, Given], path: str) -> Column:
        """Return the value of a column or member after the update."""
        if not given:
            return old
        whole = given.get(())
        if whole is not None:
            if self._fills and isinstance(data_type, StructType) and isinstance(whole.type, StructType):
                return self._merged(old, data_type, whole, path)
            return assigned(whole.value, whole.type, data_type, path, varies=whole.varies)
        members = []
        for field in data_type if isinstance(data_type, StructType) else ():
            own = {rest[1:]: one for rest, one in given.items() if rest[0] == field.name}
            member = self._updated(old.getField(field.name), field.type, own, f"{path}.{field.name}")
            members.append(member.alias(field.name))
        return F.struct(*members)

    def _merged(self, old: Column, want: StructType, given: Given, path: str) -> Column:
        """Replace a struct, and keep the old values of members that the new struct lacks."""
        have = given.type
        if not isinstance(have, StructType) or all(have.find(f.name) is not None for f in want):
            return assigned(given.value, have, want, path, fills=True, varies=given.varies)
        if given.varies:
            alone = lambda item: self._merged(old, want, Given(value=item, type=have), path)  # noqa: E731  one use
            return F.element_at(F.transform(F.array(given.value), alone), 1)
        members = []
        for field in want:
            theirs, where = have.find(field.name), f"{path}.{field.name}"
            if theirs is None:
                member = old.getField(field.name)
            else:
                one = Given(value=given.value.getField(theirs.name), type=theirs.type, varies=given.varies)
                member = self._updated(old.getField(field.name), field.type, {(): one}, where)
            members.append(member.alias(field.name))
        return F.when(given.value.isNotNull(), F.struct(*members))

    def _check_may_be_given(self, by_column: Mapping[str, object], parameter: str) -> None:
        for column in self._rules.identities:
            if column.name in by_column and not column.allows_explicit:
                raise SchemaMismatchError(
                    f"{parameter} gives a value to '{column.name}', which is GENERATED ALWAYS AS IDENTITY.",
                    remedy="Leave the column out: its values are given.",
                )


def _without_made(by_column: Mapping[str, dict[Path, Given]]) -> dict[str, dict[Path, Given]]:
    """Return the values without those that the table computes."""
    return {name: values for name, values in by_column.items() if not any(one.is_made for one in values.values())}


def assigned_path(name: str, schema: StructType) -> Path:
    """Parse the name of an assigned column, without the alias `target`; return () if it is not a name."""
    try:
        paths = parse_column_list(name)
    except InvalidRequestError:
        return ()
    path = paths[0] if len(paths) == 1 else ()
    return path[1:] if path and path[0].lower() == TARGET and schema.find(path[0]) is None else path


def decided(actions: Mapping[int, RowAction]) -> Column:
    """Return the number of the first action whose condition is true for a row, or null."""
    found = F.when(F.lit(False), F.lit(None).cast("int"))
    for number, action in actions.items():
        found = found.when(F.lit(True) if action.condition is None else action.condition, F.lit(number))
    return found


def of_target(name: str) -> Column:
    """Return a column of the table under the alias `target`."""
    return F.col(f"{TARGET}.{quoted(name)}")
