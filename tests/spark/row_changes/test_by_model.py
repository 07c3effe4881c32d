"""DELETE, UPDATE and MERGE change random tables as a model in plain Python predicts, and so does their change feed.

The tests create and read the tables without Spark, so that a case costs only its command. The fixture `one_task` tunes
Spark for tiny data.
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
        id=f"{'vectors' if vectors else 'files'}-{'feed' if feed else 'no-feed'}",
        marks=[] if vectors and feed else pytest.mark.campaign,
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


class ExampleTable:
    """The table of one example, in a temporary folder."""

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
        """Run the operation on the table, which contains `relation`; return the content that the model predicts."""
        request = case.request(self.path)
        expected = case.outcome(relation)
        before = DeltaTable(self.path).version
        if isinstance(expected, Ambiguous):
            with pytest.raises(MultipleMatchesError) as caught:
                COMMANDS[type(request)](self.spark, request)
            assert f" {expected.target_rows} " in caught.value.problem
            assert DeltaTable(self.path).version == before
            event("rejected")
            return relation
        result = COMMANDS[type(request)](self.spark, request)
        actual = read(self.path)
        assert counted(actual.rows) == counted(expected.table.rows)
        assert list(actual.columns) == list(expected.table.columns)
        after = DeltaTable(self.path).version
        assert result.version in (after, None) and after - before in (0, 1)
        if after > before and self.table.features.feed:
            assert count_changes(feed(self.path, after, after)) == count_changes(expected.changes)
        elif after == before:
            assert not expected.changes
        for metric in METRICS.keys() & result.metrics.keys():
            assert result.metrics[metric] == expected.count(METRICS[metric]), metric
        for kind in ("insert", "delete", "update_postimage"):
            if expected.count(kind):
                event(kind)
        return expected.table


def count_changes(change_rows):
    return Counter((kind, frozen(row)) for kind, row in change_rows)


def assert_matches_model(spark, example):
    """Assert that the operation does what the model predicts; shrink a case that fails before raising its error."""
    try:
        run(spark, example)
    except Exception:  # a failed assertion or an error of the product; the smaller case raises it again below
        table, case = smallest(example, lambda smaller: fails(spark, smaller))
        note(f"{table}\n{case.request('the table')}")
        run(spark, (table, case))
        raise


def run(spark, example):
    table, case = example
    with ExampleTable(spark, table) as example_table:
        example_table.run(case, table.relation)


def fails(spark, example):
    try:
        run(spark, example)
    except Exception:  # noqa: BLE001  any error counts
        return True
    return False


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize(
    ("operations", "count"),
    [
        (deletions, 2),
        (updates, 2),
        (mergings, 2),
        pytest.param(deletions, 15, marks=pytest.mark.campaign),
        pytest.param(updates, 15, marks=pytest.mark.campaign),
        pytest.param(mergings, 75, marks=pytest.mark.campaign),
    ],
)
def test_an_operation_changes_the_table_and_the_feed_as_the_model_predicts(spark, operations, count, features):
    @random_cases(count)
    @given(cases(operations, features))
    def holds(example):
        assert_matches_model(spark, example)

    holds()


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.campaign), True])
@pytest.mark.parametrize("count", [3, pytest.param(8, marks=pytest.mark.campaign)])
def test_replaying_the_change_feed_of_random_operations_yields_the_final_rows(spark, vectors, count):
    @random_cases(count)
    @given(histories(Features(vectors=vectors, feed=True)))
    def holds(example):
        table, operations = example
        with ExampleTable(spark, table) as example_table:
            relation = table.relation
            note(f"{table}")
            for case in operations:
                note(f"{case.request('the table')}")
                relation = example_table.run(case, relation)
            last_version = DeltaTable(example_table.path).version
            final_rows = counted(relation.rows)
            assert counted(DeltaTable(example_table.path).to_arrow().to_pylist()) == final_rows
            replayed_rows = counted(table.relation.rows)
            for version in range(1, last_version + 1):
                deleted_rows, inserted_rows = applied(feed(example_table.path, version, version))
                replayed_rows = replayed_rows - counted(deleted_rows) + counted(inserted_rows)
            assert replayed_rows == final_rows
            if last_version:
                spark_changes = changes(spark, example_table.path, 1, last_version).toArrow()
                assert count_changes(as_changes(spark_changes)) == count_changes(
                    feed(example_table.path, 1, last_version)
                )

    holds()
