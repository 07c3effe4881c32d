"""This library, delta-spark and delta-rs change one table in turn, and a model in plain Python predicts each version.

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
from tests.support.row_model.delta_spark_sql import has_same_meaning, statement
from tests.support.row_model.delta_spark_sql import rows_of as rows_of_answer
from tests.support.row_model.operations import Ambiguous, Outcome, Relation
from tests.support.row_model.random_cases import (
    Features,
    random_deletion,
    random_merge_case,
    random_row,
    random_table,
    random_update,
)
from tests.support.row_model.tables import feed, read, write_table
from tests.support.row_model.values import hashable_form, row_counts
from tests.support.tables import optimize_table, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

COMMANDS = {DeleteRequest: delete, UpdateRequest: update, MergeRequest: merge}
ROUNDS = {False: 2, True: 200}
"""The number of rounds: in `make test` (False) and in the campaign (True)."""
KINDS = {
    "vectors-feed": Features(vectors=True, feed=True),
    "files-feed": Features(feed=True),
    "vectors": Features(vectors=True),
    "files": Features(),
    "delta-rs": Features(),
}
"""The features of each kind of table. delta-rs changes only tables of the last kind."""


class Engine(StrEnum):
    """An engine that changes the table."""

    DELTALITE = "this library"
    DELTA_SPARK = "delta-spark"
    DELTA_RS = "delta-rs"


class AlternatingTable:
    """A table, its rows by the model, and the statements so far."""

    def __init__(self, spark, delta_spark, folder, seed, kind) -> None:
        self.spark, self.delta_spark, self.random = spark, delta_spark, Random(seed)
        self.features, self.has_delta_rs = KINDS[kind], kind == "delta-rs"
        table = random_table(self.random, self.features, plain=self.has_delta_rs)
        self.relation, self.spellings = table.relation, table.spellings
        self.partition = None if table.partition is None else table.spellings[table.partition]
        self.path = write_table(folder / "t", table)
        self.sql_name = f"delta.`{self.path}`"
        self.journal = [f"seed {seed}", repr(table)]

    def run_round(self) -> None:
        """Change the table by a random statement and a random engine, and compare it with the model."""
        version_before = DeltaTable(self.path).version
        draw_statement = self.random.choice(
            (
                random_deletion,
                random_update,
                random_merge_case,
                random_merge_case,
                self.append,
                self.append,
                self.maintain,
            )
        )
        if draw_statement in (self.append, self.maintain):
            changes = draw_statement()
        else:
            options = {"evolving": False} if draw_statement is random_merge_case else {}
            changes = self.change(
                draw_statement(self.random, self.relation.columns, plain=self.has_delta_rs, **options)
            )
        self.check(version_before, changes)

    def change(self, case: Case):
        """Perform DELETE, UPDATE or MERGE, and return the changes that the model predicts."""
        outcome = case.outcome(self.relation)
        engine = self._choose_engine(is_for_delta_rs=delta_rs.has_same_meaning(case, self.relation, self.partition))
        if engine is Engine.DELTA_SPARK and not has_same_meaning(case, self.relation):
            engine = Engine.DELTALITE
        sql, request = statement(case, self.sql_name), case.request(self.path)
        self.journal.append(sql)

        def run_statement():
            match engine:
                case Engine.DELTALITE:
                    COMMANDS[type(request)](self.spark, request)
                case Engine.DELTA_SPARK:
                    self.delta_spark.sql(sql)
                case Engine.DELTA_RS:
                    self._run_delta_rs(case, sql)

        if isinstance(outcome, Ambiguous):
            with pytest.raises(MultipleMatchesError if engine is Engine.DELTALITE else DeltaSparkError):
                run_statement()
            return []
        run_statement()
        return self._apply_to_model(outcome)

    def _run_delta_rs(self, case: Case, sql: str) -> None:
        try:
            delta_rs.perform(case, DeltaRsTable(self.path))
        except DeltaError as error:
            # The planner of delta-rs treats two encodings of a text as different types.
            if "Error during planning" not in str(error):
                raise
            self.journal.append("-- by delta-spark, because delta-rs cannot plan the statement")
            self.delta_spark.sql(sql)

    def append(self):
        """Append rows, and return the changes that the model predicts."""
        columns = self.relation.columns
        rows = [random_row(self.random, columns) for _ in range(self.random.randint(1, 4))]
        source = Source(relation=Relation(columns=columns, rows=rows), spellings=self.spellings)
        engine = self._choose_engine()
        self.journal.append(f"INSERT INTO {self.sql_name} {source.query}")
        match engine:
            case Engine.DELTALITE:
                write_rows(self.spark, self.path, source.query)
            case Engine.DELTA_SPARK:
                self.delta_spark.sql(self.journal[-1])
            case Engine.DELTA_RS:
                delta_rs.append(source, self.path)
        table = Relation(columns=columns, rows=[*self.relation.rows, *rows])
        return self._apply_to_model(Outcome(table=table, changes=[("insert", row) for row in rows]))

    def maintain(self):
        """Compact the files or write a checkpoint, and return no changes."""
        if self.random.randrange(3) == 0:
            self.journal.append("-- checkpoint")
            checkpoint(self.spark, CheckpointRequest(table=self.path))
            return []
        match self._choose_engine():
            case Engine.DELTALITE:
                optimize_table(self.spark, self.path, max_deleted_rows_ratio=0)
            case Engine.DELTA_SPARK:
                self.delta_spark.sql(f"OPTIMIZE {self.sql_name}")
            case Engine.DELTA_RS:
                DeltaRsTable(self.path).optimize.compact()
        return []

    def check(self, version_before, changes) -> None:
        """Assert that each engine reads the rows and the changes of the model."""
        version, expected = DeltaTable(self.path).version, row_counts(self.relation.rows)
        assert version - version_before in (0, 1)
        assert row_counts(read(self.path).rows) == expected
        columns = self.relation.columns
        assert row_counts(rows_of_answer(self.delta_spark.rows(self.path), columns)) == expected
        if self.has_delta_rs:
            assert row_counts(delta_rs.rows_of(self.path)) == expected
        if not self.features.feed:
            return
        if version == version_before:
            assert not changes
            return
        expected_changes = Counter((kind, hashable_form(row)) for kind, row in changes)
        actual_changes = Counter((kind, hashable_form(row)) for kind, row in feed(self.path, version, version))
        assert actual_changes == expected_changes
        answer = self.delta_spark.changes(self.path, version)
        change_rows = rows_of_answer([row[: len(columns)] for row in answer], columns)
        kinds = [row[len(columns)] for row in answer]
        assert Counter(zip(kinds, map(hashable_form, change_rows), strict=True)) == expected_changes

    def _choose_engine(self, *, is_for_delta_rs: bool = True) -> Engine:
        """Choose the engine of a statement, and note it in the journal.

        Do not choose delta-rs if `is_for_delta_rs` is false, because it would give the statement another meaning.
        """
        engines = [Engine.DELTALITE, Engine.DELTA_SPARK]
        if self.has_delta_rs and is_for_delta_rs:
            engines.append(Engine.DELTA_RS)
        engine = self.random.choice(engines)
        self.journal.append(f"-- by {engine}")
        return engine

    def _apply_to_model(self, outcome: Outcome):
        """Make the outcome the state of the model, and return its changes."""
        self.relation = outcome.table
        return outcome.changes


@pytest.mark.sample("delta-rs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_engines_that_change_one_table_in_turn_follow_the_model(spark, delta_spark, tmp_path, pytestconfig, kind, seed):
    table = AlternatingTable(spark, delta_spark, tmp_path, seed, kind)
    try:
        for _ in range(ROUNDS[pytestconfig.getoption("--campaign")]):
            table.run_round()
    except Exception as error:
        raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *table.journal])) from error
