"""This library, delta-spark and delta-rs change one table in turns, and a model in plain Python predicts each version.

The engine of each round is random. After each round the engines read the table and its change feed. delta-rs takes part
in tables without features.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random

import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake.exceptions import DeltaError

from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.errors import MultipleMatchesError
from deltalite.requests import CheckpointRequest, DeleteRequest, MergeRequest, UpdateRequest
from tests.support.delta_spark import DeltaSparkError
from tests.support.row_model import delta_rs
from tests.support.row_model.cases import Case, Source
from tests.support.row_model.chance import Features, deletions, mergings, rows_of, tables, updates
from tests.support.row_model.delta_spark_sql import has_same_meaning, statement
from tests.support.row_model.delta_spark_sql import rows_of as rows_answered
from tests.support.row_model.operations import Ambiguous, Outcome, Relation
from tests.support.row_model.tables import feed, make, read
from tests.support.row_model.values import counted, frozen
from tests.support.tables import optimize_table, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

COMMANDS = {DeleteRequest: delete, UpdateRequest: update, MergeRequest: merge}
ROUNDS = {False: 8, True: 200}
"""The number of rounds, in `make test` and in the campaign."""
KINDS = {
    "vectors-feed": Features(vectors=True, feed=True),
    "files-feed": Features(feed=True),
    "vectors": Features(vectors=True),
    "files": Features(),
    "delta-rs": Features(),
}


class Engine(StrEnum):
    """An engine that changes the table."""

    US = "this library"
    DELTA_SPARK = "delta-spark"
    DELTA_RS = "delta-rs"


class AlternatingTable:
    """A table, its rows by the model, and the statements so far."""

    def __init__(self, spark, delta_spark, folder, seed, kind) -> None:
        self.spark, self.delta_spark, self.rnd = spark, delta_spark, Random(seed)
        self.features, self.has_delta_rs = KINDS[kind], kind == "delta-rs"
        table = tables(self.rnd, self.features, plain=self.has_delta_rs)
        self.relation, self.spelled = table.relation, table.spelled
        self.partition = None if table.partition is None else table.spelled[table.partition]
        self.path = make(folder / "t", table)
        self.name = f"delta.`{self.path}`"
        self.journal = [f"seed {seed}", repr(table)]

    def round(self) -> None:
        """Change the table by a random statement and a random engine, and compare it with the model."""
        before = DeltaTable(self.path).version
        draw = self.rnd.choice((deletions, updates, mergings, mergings, self.append, self.append, self.maintain))
        if draw in (self.append, self.maintain):
            changes = draw()
        else:
            options = {"evolving": False} if draw is mergings else {}
            changes = self.change(draw(self.rnd, self.relation.columns, plain=self.has_delta_rs, **options))
        self.check(before, changes)

    def change(self, case: Case):
        """Perform DELETE, UPDATE or MERGE; return the changes that the model predicts."""
        outcome = case.outcome(self.relation)
        engine = self._engine(for_delta_rs=delta_rs.has_same_meaning(case, self.relation, self.partition))
        if engine is Engine.DELTA_SPARK and not has_same_meaning(case, self.relation):
            engine = Engine.US
        sql, request = statement(case, self.name), case.request(self.path)
        self.journal.append(sql)

        def run():
            match engine:
                case Engine.US:
                    COMMANDS[type(request)](self.spark, request)
                case Engine.DELTA_SPARK:
                    self.delta_spark.sql(sql)
                case Engine.DELTA_RS:
                    self._run_delta_rs(case, sql)

        if isinstance(outcome, Ambiguous):
            with pytest.raises(MultipleMatchesError if engine is Engine.US else DeltaSparkError):
                run()
            return []
        run()
        return self._follow(outcome)

    def _run_delta_rs(self, case: Case, sql: str) -> None:
        try:
            delta_rs.perform(case, DeltaRsTable(self.path))
        except DeltaError as error:
            if "Error during planning" not in str(error):  # it takes two kinds of text for two types
                raise
            self.journal.append("-- delta-rs cannot plan it, so by delta-spark")
            self.delta_spark.sql(sql)

    def append(self):
        """Append rows; return the changes."""
        columns = self.relation.columns
        rows = [rows_of(self.rnd, columns) for _ in range(self.rnd.randint(1, 4))]
        source = Source(relation=Relation(columns=columns, rows=rows), spelled=self.spelled)
        engine = self._engine()
        self.journal.append(f"INSERT INTO {self.name} {source.query}")
        match engine:
            case Engine.US:
                write_rows(self.spark, self.path, source.query)
            case Engine.DELTA_SPARK:
                self.delta_spark.sql(self.journal[-1])
            case Engine.DELTA_RS:
                delta_rs.append(source, self.path)
        table = Relation(columns=columns, rows=[*self.relation.rows, *rows])
        return self._follow(Outcome(table=table, changes=[("insert", row) for row in rows]))

    def maintain(self):
        """Compact the files, or write a checkpoint."""
        if self.rnd.randrange(3) == 0:
            self.journal.append("-- checkpoint")
            checkpoint(self.spark, CheckpointRequest(table=self.path))
            return []
        match self._engine():
            case Engine.US:
                optimize_table(self.spark, self.path, max_deleted_rows_ratio=0)
            case Engine.DELTA_SPARK:
                self.delta_spark.sql(f"OPTIMIZE {self.name}")
            case Engine.DELTA_RS:
                DeltaRsTable(self.path).optimize.compact()
        return []

    def check(self, before, changes) -> None:
        """Assert that each engine reads the rows and the changes of the model."""
        after, expected = DeltaTable(self.path).version, counted(self.relation.rows)
        assert after - before in (0, 1)
        assert counted(read(self.path).rows) == expected
        columns = self.relation.columns
        assert counted(rows_answered(self.delta_spark.rows(self.path), columns)) == expected
        if self.has_delta_rs:
            assert counted(delta_rs.rows_of(self.path)) == expected
        if not self.features.feed:
            return
        if after == before:
            assert not changes
            return
        expected_changes = Counter((kind, frozen(row)) for kind, row in changes)
        assert Counter((kind, frozen(row)) for kind, row in feed(self.path, after, after)) == expected_changes
        answer = self.delta_spark.changes(self.path, after)
        change_rows = rows_answered([row[: len(columns)] for row in answer], columns)
        kinds = [row[len(columns)] for row in answer]
        assert Counter(zip(kinds, map(frozen, change_rows), strict=True)) == expected_changes

    def _engine(self, *, for_delta_rs: bool = True) -> Engine:
        """Choose the engine of a statement. delta-rs gives some statements another meaning."""
        engines = [Engine.US, Engine.DELTA_SPARK]
        if self.has_delta_rs and for_delta_rs:
            engines.append(Engine.DELTA_RS)
        engine = self.rnd.choice(engines)
        self.journal.append(f"-- by {engine}")
        return engine

    def _follow(self, outcome: Outcome):
        self.relation = outcome.table
        return outcome.changes


@pytest.mark.sample("vectors-feed", "delta-rs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_engines_that_change_one_table_in_turns_follow_the_model(
    spark, delta_spark, tmp_path, pytestconfig, kind, seed
):
    table = AlternatingTable(spark, delta_spark, tmp_path, seed, kind)
    try:
        for _ in range(ROUNDS[pytestconfig.getoption("--campaign")]):
            table.round()
    except Exception as error:
        raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *table.journal])) from error
