"""DELETE, UPDATE and MERGE do to random tables what a model in plain Python says, and so does their change feed.

Tables are made without Spark and read without it, so that a case costs what the command costs. Spark is told that data
are tiny while these tests run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import event, given, note

from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.errors import MultipleMatchesError
from deltalite.requests import DeleteRequest, MergeRequest, UpdateRequest
from deltalite.spark.reader.changes import changes
from tests.support.row_model.chance import Features, deletions, mergings, updates
from tests.support.row_model.operations import Ambiguous, applied
from tests.support.row_model.strategies import cases, histories, random_cases, smallest
from tests.support.row_model.tables import as_changes, feed, make, read
from tests.support.row_model.values import counted, frozen

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

COMMANDS = {DeleteRequest: delete, UpdateRequest: update, MergeRequest: merge}
KINDS = [
    pytest.param(
        Features(vectors=vectors, feed=feed),
        id=f"{'vectors' if vectors else 'files'}-{'feed' if feed else 'quiet'}",
        marks=[] if vectors == feed else pytest.mark.campaign,
    )
    for vectors in (False, True)
    for feed in (False, True)
]
METRICS = {
    "numDeletedRows": "delete",
    "numUpdatedRows": "update_postimage",
    "numTargetRowsInserted": "insert",
    "numTargetRowsUpdated": "update_postimage",
    "numTargetRowsDeleted": "delete",
}


class Stage:
    """A folder for one example, and what the command made of the table in it."""

    def __init__(self, spark, table) -> None:
        self.spark = spark
        self.table = table

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="rows-")
        self.path = make(Path(self.folder) / "t", self.table)
        return self

    def __exit__(self, *_error):
        shutil.rmtree(self.folder)

    def run(self, case, relation):
        """Do the operation on the table, which holds `relation`, and give what it holds then."""
        request = case.request(self.path)
        expected = case.outcome(relation)
        before = DeltaTable(self.path).version
        if isinstance(expected, Ambiguous):
            with pytest.raises(MultipleMatchesError) as refused:
                COMMANDS[type(request)](self.spark, request)
            assert f" {expected.target_rows} " in refused.value.problem
            assert DeltaTable(self.path).version == before
            event("refused")
            return relation
        result = COMMANDS[type(request)](self.spark, request)
        actual = read(self.path)
        assert counted(actual.rows) == counted(expected.table.rows)
        assert list(actual.columns) == list(expected.table.columns)
        after = DeltaTable(self.path).version
        assert result.version in (after, None) and after - before in (0, 1)
        if after > before and self.table.features.feed:
            assert as_counted(feed(self.path, after, after)) == as_counted(expected.changes)
        elif after == before:
            assert not expected.changes
        for metric in METRICS.keys() & result.metrics.keys():
            assert result.metrics[metric] == expected.count(METRICS[metric]), metric
        for kind in ("insert", "delete", "update_postimage"):
            if expected.count(kind):
                event(kind)
        return expected.table


def as_counted(changes_read):
    return Counter((kind, frozen(row)) for kind, row in changes_read)


def check(spark, drawn):
    """The operation does what the model says; a case in which it does not is made smaller first."""
    try:
        run(spark, drawn)
    except Exception:  # an assertion, or an error of the product: made smaller, and raised again below
        table, case = smallest(drawn, lambda less: fails(spark, less))
        note(f"{table}\n{case.request('the table')}")
        run(spark, (table, case))
        raise


def run(spark, drawn):
    table, case = drawn
    with Stage(spark, table) as stage:
        stage.run(case, table.relation)


def fails(spark, drawn):
    try:
        run(spark, drawn)
    except Exception:  # noqa: BLE001  whatever is wrong with it
        return True
    return False


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize(
    ("operations", "count"),
    [
        (deletions, 6),
        (updates, 6),
        (mergings, 12),
        pytest.param(deletions, 15, marks=pytest.mark.campaign),
        pytest.param(updates, 15, marks=pytest.mark.campaign),
        pytest.param(mergings, 75, marks=pytest.mark.campaign),
    ],
)
def test_an_operation_does_what_the_model_says(spark, operations, count, features):
    @random_cases(count)
    @given(cases(operations, features))
    def holds(drawn):
        check(spark, drawn)

    holds()


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.campaign)])
def test_the_feed_of_any_operations_leads_from_each_version_to_the_next(spark, vectors, count):
    @random_cases(count)
    @given(histories(Features(vectors=vectors, feed=True)))
    def holds(drawn):
        table, operations = drawn
        with Stage(spark, table) as stage:
            relation = table.relation
            note(f"{table}")
            for case in operations:
                note(f"{case.request('the table')}")
                relation = stage.run(case, relation)
            last = DeltaTable(stage.path).version
            now = counted(relation.rows)
            assert counted(DeltaTable(stage.path).to_arrow().to_pylist()) == now
            rows = counted(table.relation.rows)
            for version in range(1, last + 1):
                gone, come = applied(feed(stage.path, version, version))
                rows = rows - counted(gone) + counted(come)
            assert rows == now
            if last:
                through_spark = changes(spark, stage.path, 1, last).toArrow()
                assert as_counted(as_changes(through_spark)) == as_counted(feed(stage.path, 1, last))

    holds()
