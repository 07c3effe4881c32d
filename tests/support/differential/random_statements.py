"""Random statements for a table in a known state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from tests.support.differential.conditions import condition, reference, value
from tests.support.differential.kinds import KINDS, literal, random_value_of
from tests.support.differential.statements import (
    Alter,
    Checkpoint,
    Clause,
    Delete,
    Merge,
    Optimize,
    Restore,
    Rows,
    Statement,
    Update,
    Write,
)
from tests.support.differential.tables import KEY, Column, Table, properties_text, quoted


@dataclass(slots=True)
class RandomStatements:
    """A source of random statements. `present_keys` are the keys of the table's rows."""

    rnd: Random
    next_key: int = 1
    present_keys: Sequence[int] = ()
    states: list[tuple[Mapping[str, int], Table]] = field(default_factory=list)
    """The states that a restore can restore: the version of each copy by its path, and the table."""

    def statement(self, table: Table) -> Statement:
        """Return a random statement that suits the table.

        The methods for the kinds of statements return None if no statement of the kind suits the table.
        """
        weights: dict[Callable[[Table], Statement | None], int] = {
            self.append: 5, self.overwrite: 1, self.replace: 2, self.delete: 4, self.update: 5, self.merge: 6,
            self.optimize: 3, self.restore: 1, self.checkpoint: 1, self.alter: 3,
        }  # fmt: skip
        while True:
            (draw_kind,) = self.rnd.choices(list(weights), weights=list(weights.values()))
            statement = draw_kind(table)
            if statement is not None:
                return statement

    def append(self, table: Table) -> Write:
        return Write(source=self._rows(table, self._columns(table)))

    def overwrite(self, table: Table) -> Write:
        dynamic = bool(table.partition_by) and self.rnd.randrange(2) == 0
        mode: Literal["dynamic", "overwrite"] = "dynamic" if dynamic else "overwrite"
        columns = self._columns(table, has_partition_columns=dynamic)
        return Write(source=self._rows(table, columns), mode=mode, cluster_by=table.cluster_by)

    def replace(self, table: Table) -> Write | None:
        if len(table.writable) < len(table.columns):  # REPLACE WHERE takes all columns by their position
            return None
        where = condition(self.rnd, table.comparable)
        return Write(source=self._rows(table, list(table.writable)), mode="replace", replace_where=where)

    def delete(self, table: Table) -> Delete:
        return Delete(condition=condition(self.rnd, table.comparable) if self.rnd.randrange(8) else None)

    def update(self, table: Table) -> Update:
        return Update(
            condition=condition(self.rnd, table.comparable) if self.rnd.randrange(6) else None,
            values=self._assignments(table, table.comparable, None),
        )

    def merge(self, table: Table) -> Merge:
        rnd = self.rnd
        columns = list(table.writable)
        keys = rnd.sample(list(self.present_keys), min(len(self.present_keys), rnd.randint(0, 3)))
        clause_kinds = rnd.randint(1, 7)  # Each bit stands for a kind of clause.
        # Two source rows match one target row, but only in merges with a matched clause. Without such a clause, this
        # library accepts the two rows, because they have no effect. delta-spark rejects them unless the merge only
        # inserts (`MergeIntoCommandBase`, `throwErrorOnMultipleMatches`).
        if keys and clause_kinds & 1 and rnd.randrange(8) == 0:
            keys.append(keys[0])
        keys += self._fresh_keys(rnd.randint(0, 2) or not keys)
        source = self._rows(table, columns, keys)
        star = len(columns) == len(table.columns)
        source_columns = tuple(column for column in columns if column.kind.name != "variant")
        target_view, source_view = (table.comparable, "target"), (source_columns, "source")
        both_views = [target_view, source_view]
        return Merge(
            source=source,
            on=f"target.{KEY} = source.{KEY}",
            matched=(
                self._clauses(table, both_views, ("update", "update", "delete"), star=star) if clause_kinds & 1 else ()
            ),
            inserts=self._clauses(table, [source_view], ("insert",), star=star) if clause_kinds & 2 else (),
            by_source=(
                self._clauses(table, [target_view], ("update", "delete"), star=False) if clause_kinds & 4 else ()
            ),
        )

    def optimize(self, table: Table) -> Optimize:
        rnd = self.rnd
        columns = [c.name for c in table.comparable if c.kind.bounded and c.name not in table.partition_by]
        # delta-spark rejects a Z-order of each table with the feature `clustering` (OptimizeTableCommand.run). This
        # library rejects it only if the table has clustering columns.
        match rnd.randrange(4):
            case 0 if not table.supports_clustering:
                return Optimize(z_order_by=tuple(map(quoted, rnd.sample(columns[:3], min(2, len(columns[:3]))))))
            case 1 if table.enables("enableDeletionVectors"):
                return Optimize(purge=True)
            case 2 if table.cluster_by:
                return Optimize(full=True)
            case _:
                return Optimize()

    def restore(self, _table: Table) -> Restore | None:
        if not self.states:
            return None
        versions, state = self.rnd.choice(self.states)
        return Restore(versions=versions, state=state)

    def checkpoint(self, _table: Table) -> Checkpoint:
        return Checkpoint()

    def alter(self, table: Table) -> Alter:
        return self.rnd.choice(list(self._alterations(table)))

    def _alterations(self, table: Table) -> Iterator[Alter]:
        rnd = self.rnd
        new_kind = KINDS[rnd.choice(("int", "string", "date", "struct"))]
        new_column = Column(name=f"added{len(table.columns)}", kind=new_kind)
        yield Alter(
            declared={"schema": new_column.ddl},
            texts=(f"ADD COLUMNS ({new_column.ddl})",),
            altered=table.with_column(new_column),
        )
        yield from self._property_alterations(table)
        yield from self._constraint_alterations(table)
        for column in table.columns:
            if column.rule == "required" and column.name != KEY:
                nullable_column = replace(column, rule="plain")
                yield Alter(
                    declared={"schema": nullable_column.ddl},
                    texts=(f"ALTER COLUMN {quoted(column.name)} DROP NOT NULL",),
                    altered=table.with_column(nullable_column),
                )
            if _can_widen(table, column):
                wider_column = replace(column, kind=KINDS[column.kind.wider])
                yield Alter(
                    declared={"schema": wider_column.ddl},
                    texts=(f"ALTER COLUMN {quoted(column.name)} TYPE {wider_column.kind.sql}",),
                    altered=table.with_column(wider_column),
                )
        if table.cluster_by:
            bounded_names = [c.name for c in table.columns[:3] if c.kind.bounded]
            cluster_by = tuple(rnd.sample(bounded_names, rnd.randint(0, min(2, len(bounded_names)))))
            text = f"({', '.join(map(quoted, cluster_by))})" if cluster_by else "NONE"
            yield Alter(
                declared={"cluster_by": tuple(map(quoted, cluster_by))},
                texts=(f"CLUSTER BY {text}",),
                altered=replace(table, cluster_by=cluster_by),
            )

    def _property_alterations(self, table: Table) -> Iterator[Alter]:
        names = ("enableDeletionVectors", "enableChangeDataFeed", "enableRowTracking", "enableTypeWidening")
        for name in (*names, "enableInCommitTimestamps"):
            if not table.enables(name) and not (table.is_iceberg_compatible and name == "enableDeletionVectors"):
                properties = {f"delta.{name}": "true"}
                yield Alter(
                    declared={"properties": properties},
                    texts=(f"SET TBLPROPERTIES ({properties_text(properties)})",),
                    altered=table.with_properties(properties),
                )

    def _constraint_alterations(self, table: Table) -> Iterator[Alter]:
        if table.constraints:
            (name, *_) = table.constraints
            yield Alter(
                declared={"drop_constraints": (name,)},
                texts=(f"DROP CONSTRAINT {name}",),
                altered=replace(table, constraints={n: t for n, t in table.constraints.items() if n != name}),
            )
        else:
            text = condition(self.rnd, table.comparable)
            yield Alter(
                declared={"constraints": {"rule": text}},
                texts=(f"ADD CONSTRAINT rule CHECK ({text})",),
                altered=replace(table, constraints={"rule": text}),
            )

    def _columns(self, table: Table, *, has_partition_columns: bool = False) -> list[Column]:
        """The columns of an insert: all required columns, and most of the optional ones.

        In a table with an identity column, and for a dynamic overwrite, delta-spark also requires the partition columns
        (`TransactionalWrite.getPartitioningColumns`, which sees the columns of the query). This library writes rows
        without them to the NULL partition, with a warning.
        """
        required = set(table.partition_by) if table.identity_names or has_partition_columns else set()
        return [c for c in table.writable if not c.is_optional or c.name in required or self.rnd.randrange(8)]

    def _rows(self, table: Table, columns: Sequence[Column], keys: Sequence[int] | None = None) -> Rows:
        if keys is None:
            keys = self._fresh_keys(self.rnd.choice((1, 2, 3, 4, 6)))
        rows = (tuple(self._cell(column, key) for column in columns) for key in keys)
        return Rows(columns=tuple(column.name for column in columns), rows=tuple(rows))

    def _cell(self, column: Column, key: int) -> str:
        if column.name == KEY:
            return literal(key, column.kind)
        random_value = random_value_of(self.rnd, column.kind)
        if random_value is None and column.rule == "required" and self.rnd.randrange(20):
            random_value = column.kind.values[0]  # This keeps most writes from violating NOT NULL.
        return literal(random_value, column.kind)

    def _fresh_keys(self, count: int) -> list[int]:
        keys = list(range(self.next_key, self.next_key + count))
        self.next_key += count
        return keys

    def _clauses(
        self,
        table: Table,
        views: Sequence[tuple[Sequence[Column], str]],
        actions: Sequence[str],
        *,
        star: bool,
    ) -> tuple[Clause, ...]:
        """One or two clauses of a merge; the first of two has a condition.

        `views` are the views that a clause may use, each with its columns. With `star`, a clause may be
        `UPDATE SET *` or `INSERT *`.
        """
        rnd = self.rnd
        count = rnd.choice((1, 1, 2))
        clauses = []
        for number in range(count):
            action = rnd.choice(actions)
            columns, view = rnd.choice(views)
            text = condition(rnd, columns, view) if number < count - 1 or rnd.randrange(3) == 0 else None
            columns, view = rnd.choice(views)
            values = None
            if action == "insert" and not (star and rnd.randrange(2)):
                values = self._insert_values(table)
            elif action == "update" and not (star and rnd.randrange(2)):
                values = self._assignments(table, columns, view)
            clauses.append(Clause(action=action, condition=text, values=values))
        return tuple(clauses)

    def _assignments(self, table: Table, columns: Sequence[Column], view: str | None) -> dict[str, str]:
        """The SET clause of an update: new values for one or two columns. They may use the `columns` of the view."""
        count = self.rnd.randint(1, min(2, len(table.assignable)))
        assignments: dict[str, str] = {}
        for column in self.rnd.sample(table.assignable, count):
            if column.kind.name == "struct" and self.rnd.randrange(2):
                assignments[f"{quoted(column.name)}.a"] = self.rnd.choice(("7", "CAST(NULL AS INT)"))
            else:
                assignments[quoted(column.name)] = value(self.rnd, column, columns, view)
        return assignments

    def _insert_values(self, table: Table) -> dict[str, str]:
        return {quoted(column.name): reference(column, "source") for column in self._columns(table)}


def _can_widen(table: Table, column: Column) -> bool:
    """Whether the column's type can change to a wider one. Iceberg cannot change the scale of a decimal."""
    if column.kind.wider is None or column.rule != "plain" or not table.enables("enableTypeWidening"):
        return False
    return not (table.is_iceberg_compatible and column.kind.name == "decimal")
