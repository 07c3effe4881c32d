"""This library and delta-spark change one table in turns, and a model in plain Python predicts each version.

The engine of each round is random. After each round both engines read the table and its change feed.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.errors import MultipleMatchesError
from deltalite.requests import CheckpointRequest, DeleteRequest, MergeRequest, UpdateRequest
from tests.support.delta_spark import DeltaSparkError
from tests.support.row_model.cases import Case, Source
from tests.support.row_model.chance import Features, deletions, mergings, rows_of, tables, updates
from tests.support.row_model.delta_spark_sql import rows_of as rows_answered
from tests.support.row_model.delta_spark_sql import statement
from tests.support.row_model.operations import Ambiguous, Outcome, Relation
from tests.support.row_model.tables import feed, make, read
from tests.support.row_model.values import counted, frozen
from tests.support.tables import optimized, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

COMMANDS = {DeleteRequest: delete, UpdateRequest: update, MergeRequest: merge}
ROUNDS = {False: 8, True: 200}
"""The number of rounds, in `make test` and in the campaign."""
KINDS = {
    "vectors-feed": Features(vectors=True, feed=True),
    "files-feed": Features(feed=True),
    "vectors": Features(vectors=True),
    "files": Features(),
}


class AlternatingTable:
    """A table, its rows by the model, and the statements so far."""

    def __init__(self, spark, delta_spark, folder, seed, features) -> None:
        self.spark, self.delta_spark, self.rnd = spark, delta_spark, Random(seed)
        table = tables(self.rnd, features)
        self.features, self.relation, self.spelled = features, table.relation, table.spelled
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
            changes = self.change(draw(self.rnd, self.relation.columns, **options))
        self.check(before, changes)

    def change(self, case: Case):
        """Perform DELETE, UPDATE or MERGE; return the changes that the model predicts."""
        outcome = case.outcome(self.relation)
        by_us, sql = self._by_us(), statement(case, self.name)
        self.journal.append(sql)
        request = case.request(self.path)
        run = lambda: COMMANDS[type(request)](self.spark, request) if by_us else self.delta_spark.sql(sql)
        if isinstance(outcome, Ambiguous):
            with pytest.raises(MultipleMatchesError if by_us else DeltaSparkError):
                run()
            return []
        run()
        return self._follow(outcome)

    def append(self):
        """Append rows; return the changes."""
        columns = self.relation.columns
        rows = [rows_of(self.rnd, columns) for _ in range(self.rnd.randint(1, 4))]
        query = Source(relation=Relation(columns=columns, rows=rows), spelled=self.spelled).query
        by_us = self._by_us()
        self.journal.append(f"INSERT INTO {self.name} {query}")
        if by_us:
            write_rows(self.spark, self.path, query)
        else:
            self.delta_spark.sql(self.journal[-1])
        table = Relation(columns=columns, rows=[*self.relation.rows, *rows])
        return self._follow(Outcome(table=table, changes=[("insert", row) for row in rows]))

    def maintain(self):
        """Compact the files, or write a checkpoint."""
        if self.rnd.randrange(3) == 0:
            self.journal.append("-- checkpoint")
            checkpoint(self.spark, CheckpointRequest(table=self.path))
        elif self._by_us():
            optimized(self.spark, self.path, max_deleted_rows_ratio=0)
        else:
            self.delta_spark.sql(f"OPTIMIZE {self.name}")
        return []

    def check(self, before, changes) -> None:
        """Assert that both engines read the rows and the changes of the model."""
        after, expected = DeltaTable(self.path).version, counted(self.relation.rows)
        assert after - before in (0, 1)
        assert counted(read(self.path).rows) == expected
        columns = self.relation.columns
        assert counted(rows_answered(self.delta_spark.rows(self.path), columns)) == expected
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

    def _by_us(self) -> bool:
        by_us = self.rnd.randrange(2) == 0
        self.journal.append(f"-- by {'this library' if by_us else 'delta-spark'}")
        return by_us

    def _follow(self, outcome: Outcome):
        self.relation = outcome.table
        return outcome.changes


@pytest.mark.sample("vectors-feed")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_engines_that_change_one_table_in_turns_follow_the_model(
    spark, delta_spark, tmp_path, pytestconfig, kind, seed
):
    table = AlternatingTable(spark, delta_spark, tmp_path, seed, KINDS[kind])
    try:
        for _ in range(ROUNDS[pytestconfig.getoption("--campaign")]):
            table.round()
    except Exception as error:
        raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *table.journal])) from error
