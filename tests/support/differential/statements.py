"""Statements in two forms: a request to the commands of this library, and SQL for delta-spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.requests import CheckpointRequest, RestoreRequest, TableRequest
from tests.support.differential.tables import Table, name_of, properties_text, quoted
from tests.support.merging import merge_into
from tests.support.tables import delete_rows, optimize_table, update_rows, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class Statement(Protocol):
    """A statement on one table."""

    def run(self, spark: SparkSession, path: str) -> object:
        """Run the statement with this library."""
        ...

    def sql(self, path: str) -> list[str]:
        """Return the SQL of the statement for delta-spark, which may be several statements."""
        ...

    def after(self, table: Table) -> Table:
        """Return the state of the table after the statement."""
        ...


class StatementWithoutAlteration:
    """A statement that does not change the table's columns, layout, properties and constraints."""

    def after(self, table: Table) -> Table:
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of SQL literals; each row has a value for each column."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def query(self) -> str:
        """The query for the rows."""
        names = ", ".join(map(quoted, self.columns))
        lines = ", ".join(f"({', '.join(row)})" for row in self.rows)
        return f"SELECT * FROM VALUES {lines} AS v({names})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(StatementWithoutAlteration):
    """INSERT, INSERT OVERWRITE or REPLACE WHERE.

    For a REPLACE WHERE, `source` must have all columns in the table's order. `cluster_by` are the clustering columns of
    the table. An overwrite of delta-spark removes them (`WriteIntoDelta`, `isReplacingTable`), so delta-spark then sets
    them again. An overwrite of this library keeps them.
    """

    source: Rows
    mode: Literal["append", "overwrite", "dynamic", "replace"] = "append"
    replace_where: str | None = None
    cluster_by: tuple[str, ...] = ()

    def run(self, spark: SparkSession, path: str) -> object:
        options: dict[str, Any] = {"mode": "append" if self.mode == "append" else "overwrite"}
        if self.mode == "dynamic":
            options["partition_overwrite"] = "dynamic"
        if self.replace_where is not None:
            options["replace_where"] = self.replace_where
        return write_rows(spark, path, self.source.query, **options)

    def sql(self, path: str) -> list[str]:
        columns = ", ".join(map(quoted, self.source.columns))
        query = self.source.query
        match self.mode:
            case "append":
                return [f"INSERT INTO {name_of(path)} ({columns}) {query}"]
            case "overwrite":
                insert = f"INSERT OVERWRITE {name_of(path)} ({columns}) {query}"
                clustering = ", ".join(map(quoted, self.cluster_by))
                return [insert, f"ALTER TABLE {name_of(path)} CLUSTER BY ({clustering})"] if clustering else [insert]
            case "replace":
                return [f"INSERT INTO {name_of(path)} REPLACE WHERE {self.replace_where} {query}"]
            case "dynamic":
                insert = f"INSERT OVERWRITE {name_of(path)} ({columns}) {query}"
                return [f"SET {_OVERWRITE_MODE} = dynamic", insert, f"SET {_OVERWRITE_MODE} = static"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(StatementWithoutAlteration):
    """DELETE."""

    condition: str | None

    def run(self, spark: SparkSession, path: str) -> object:
        return delete_rows(spark, path, self.condition, confirm_all_rows=True)

    def sql(self, path: str) -> list[str]:
        return [f"DELETE FROM {name_of(path)}{_where(self.condition)}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(StatementWithoutAlteration):
    """UPDATE."""

    condition: str | None
    values: Mapping[str, str]

    def run(self, spark: SparkSession, path: str) -> object:
        return update_rows(spark, path, dict(self.values), self.condition)

    def sql(self, path: str) -> list[str]:
        return [f"UPDATE {name_of(path)} SET {_assignments(self.values)}{_where(self.condition)}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause of a merge. Without `values`, an update is `UPDATE SET *` and an insert is `INSERT *`."""

    action: Literal["update", "insert", "delete"]
    condition: str | None = None
    values: Mapping[str, str] | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The clause in the form that the merge operator takes."""
        argument = True if self.action == "delete" else "*" if self.values is None else dict(self.values)
        return {self.action: argument, "condition": self.condition}

    @property
    def sql(self) -> str:
        """The clause in SQL without its WHEN."""
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"{condition} THEN {self._action_sql}"

    @property
    def _action_sql(self) -> str:
        if self.action == "delete":
            return "DELETE"
        if self.action == "update":
            return f"UPDATE SET {'*' if self.values is None else _assignments(self.values)}"
        if self.values is None:
            return "INSERT *"
        return f"INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(StatementWithoutAlteration):
    """MERGE."""

    source: Rows
    on: str
    matched: tuple[Clause, ...] = ()
    inserts: tuple[Clause, ...] = ()
    by_source: tuple[Clause, ...] = ()

    def run(self, spark: SparkSession, path: str) -> object:
        return merge_into(
            spark,
            path,
            self.source.query,
            self.on,
            matched=[clause.request for clause in self.matched],
            inserts=[clause.request for clause in self.inserts],
            by_source=[clause.request for clause in self.by_source],
        )

    def sql(self, path: str) -> list[str]:
        clauses = [
            *(f"WHEN MATCHED{clause.sql}" for clause in self.matched),
            *(f"WHEN NOT MATCHED{clause.sql}" for clause in self.inserts),
            *(f"WHEN NOT MATCHED BY SOURCE{clause.sql}" for clause in self.by_source),
        ]
        into = f"MERGE INTO {name_of(path)} AS target USING ({self.source.query}) AS source"
        return [f"{into} ON {self.on} {' '.join(clauses)}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize(StatementWithoutAlteration):
    """OPTIMIZE, with or without a Z-order. `purge` removes soft-deleted rows from files; `full` clusters all files."""

    z_order_by: tuple[str, ...] = ()
    purge: bool = False
    full: bool = False

    def run(self, spark: SparkSession, path: str) -> object:
        options = {"max_deleted_rows_ratio": 0} if self.purge else {}
        return optimize_table(spark, path, z_order_by=self.z_order_by, full=self.full, **options)

    def sql(self, path: str) -> list[str]:
        if self.purge:
            return [f"REORG TABLE {name_of(path)} APPLY (PURGE)"]
        full = " FULL" if self.full else ""
        order = f" ZORDER BY ({', '.join(self.z_order_by)})" if self.z_order_by else ""
        return [f"OPTIMIZE {name_of(path)}{full}{order}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """RESTORE to an earlier `state`. `versions` has the version of this state in each copy, by the copy's path."""

    versions: Mapping[str, int]
    state: Table

    def run(self, spark: SparkSession, path: str) -> object:
        return restore(spark, RestoreRequest(table=path, version=self.versions[path]))

    def sql(self, path: str) -> list[str]:
        return [f"RESTORE TABLE {name_of(path)} TO VERSION AS OF {self.versions[path]}"]

    def after(self, table: Table) -> Table:
        return self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(StatementWithoutAlteration):
    """A checkpoint of the newest version. delta-spark has no statement for it."""

    def run(self, spark: SparkSession, path: str) -> object:
        return checkpoint(spark, CheckpointRequest(table=path))

    def sql(self, path: str) -> list[str]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """ALTER TABLE.

    `declared` has the options of this library's request, `texts` the SQL after `ALTER TABLE`, and `altered` the table
    after the statement.
    """

    declared: Mapping[str, Any]
    texts: tuple[str, ...]
    altered: Table = field(repr=False)

    def run(self, spark: SparkSession, path: str) -> object:
        return define_table(spark, TableRequest(table=path, **self.declared))

    def sql(self, path: str) -> list[str]:
        return [f"ALTER TABLE {name_of(path)} {text}" for text in self.texts]

    def after(self, table: Table) -> Table:
        return self.altered


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """CREATE TABLE, with its constraints."""

    table: Table

    def run(self, spark: SparkSession, path: str) -> object:
        table = self.table
        return define_table(
            spark,
            TableRequest(
                table=path,
                schema=table.ddl,
                partition_by=table.partition_by or None,
                cluster_by=tuple(map(quoted, table.cluster_by)) or None,
                properties=table.properties,
                constraints=table.constraints,
            ),
        )

    def sql(self, path: str) -> list[str]:
        table = self.table
        text = f"CREATE TABLE {name_of(path)} ({table.ddl}) USING delta"
        if table.partition_by:
            text += f" PARTITIONED BY ({', '.join(map(quoted, table.partition_by))})"
        if table.cluster_by:
            text += f" CLUSTER BY ({', '.join(map(quoted, table.cluster_by))})"
        if table.properties:
            text += f" TBLPROPERTIES ({properties_text(table.properties)})"
        add = f"ALTER TABLE {name_of(path)} ADD CONSTRAINT"
        return [text, *(f"{add} {name} CHECK ({condition})" for name, condition in table.constraints.items())]

    def after(self, table: Table) -> Table:
        return self.table


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {condition}"


def _assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in values.items())
