"""A model in plain Python predicts the rows and the change feed of random tables after DELETE, UPDATE and MERGE.

The tests create and read the tables without Spark, so that only the command of a case takes time. The fixture
`one_task` tunes Spark for tiny data.
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
from tests.support.row_model.operations import Ambiguous, removed_and_added_rows
from tests.support.row_model.random_cases import Features, random_deletion, random_merge_case, random_update
from tests.support.row_model.strategies import cases, histories, settings_for_cases, shrunk
from tests.support.row_model.tables import as_changes, feed, read, write_table
from tests.support.row_model.values import hashable_form, row_counts

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

COMMANDS = {DeleteRequest: delete, UpdateRequest: update, MergeRequest: merge}
FEATURES = [
    pytest.param(
        Features(vectors=vectors, feed=feed),
        id=f"{'vectors' if vectors else 'files'}-{'feed' if feed else 'no-feed'}",
        marks=[] if vectors and feed else pytest.mark.campaign,
    )
    for vectors in (False, True)
    for feed in (False, True)
]
CHANGE_TYPES = {
    "numDeletedRows": "delete",
    "numUpdatedRows": "update_postimage",
    "numTargetRowsInserted": "insert",
    "numTargetRowsUpdated": "update_postimage",
    "numTargetRowsDeleted": "delete",
}
"""The type of the changes that each metric counts."""


class ExampleTable:
    """The table of one example, in a temporary folder."""

    def __init__(self, spark, table) -> None:
        self.spark = spark
        self.table = table

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="rows-")
        self.path = write_table(Path(self.folder) / "t", self.table)
        return self

    def __exit__(self, *_error):
        shutil.rmtree(self.folder)

    def run(self, case, relation):
        """Run the operation on the table, which has the rows of `relation`, and compare the outcome with the model.

        Returns the rows that the model predicts.
        """
        request = case.request(self.path)
        expected = case.outcome(relation)
        version_before = DeltaTable(self.path).version
        if isinstance(expected, Ambiguous):
            with pytest.raises(MultipleMatchesError) as error_info:
                COMMANDS[type(request)](self.spark, request)
            assert f" {expected.target_rows} " in error_info.value.problem
            assert DeltaTable(self.path).version == version_before
            event("rejected")
            return relation
        result = COMMANDS[type(request)](self.spark, request)
        actual = read(self.path)
        assert row_counts(actual.rows) == row_counts(expected.table.rows)
        assert list(actual.columns) == list(expected.table.columns)
        version = DeltaTable(self.path).version
        assert result.version in (version, None) and version - version_before in (0, 1)
        if version > version_before and self.table.features.feed:
            assert count_changes(feed(self.path, version, version)) == count_changes(expected.changes)
        elif version == version_before:
            assert not expected.changes
        for metric in CHANGE_TYPES.keys() & result.metrics.keys():
            assert result.metrics[metric] == expected.count(CHANGE_TYPES[metric]), metric
        for kind in ("insert", "delete", "update_postimage"):
            if expected.count(kind):
                event(kind)
        return expected.table


def count_changes(change_rows):
    return Counter((kind, hashable_form(row)) for kind, row in change_rows)


def assert_matches_model(spark, example):
    """Assert that the operation has the outcome of the model. If it does not, report a smaller example that fails."""
    try:
        run(spark, example)
    except Exception:  # A failed assertion, or an error of the library. The smaller example raises its own error.
        table, case = shrunk(example, lambda smaller: fails(spark, smaller))
        note(f"{table}\n{case.request('the table')}")
        run(spark, (table, case))
        raise


def run(spark, example):
    """Run the operation of an example on its table, and compare the outcome with the model."""
    table, case = example
    with ExampleTable(spark, table) as example_table:
        example_table.run(case, table.relation)


def fails(spark, example):
    try:
        run(spark, example)
    except Exception:  # noqa: BLE001  an error of any kind is a failure
        return True
    return False


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    ("operations", "count"),
    [
        (random_deletion, 2),
        (random_update, 2),
        (random_merge_case, 2),
        pytest.param(random_deletion, 15, marks=pytest.mark.campaign),
        pytest.param(random_update, 15, marks=pytest.mark.campaign),
        pytest.param(random_merge_case, 75, marks=pytest.mark.campaign),
    ],
)
def test_an_operation_changes_the_table_and_the_feed_as_the_model_predicts(spark, operations, count, features):
    @settings_for_cases(count)
    @given(cases(operations, features))
    def holds(example):
        assert_matches_model(spark, example)

    holds()


@pytest.mark.campaign
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("count", [3, 8])
def test_replaying_the_change_feed_of_random_operations_yields_the_final_rows(spark, vectors, count):
    @settings_for_cases(count)
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
            final_rows = row_counts(relation.rows)
            assert row_counts(DeltaTable(example_table.path).to_arrow().to_pylist()) == final_rows
            replayed_rows = row_counts(table.relation.rows)
            for version in range(1, last_version + 1):
                deleted_rows, inserted_rows = removed_and_added_rows(feed(example_table.path, version, version))
                replayed_rows = replayed_rows - row_counts(deleted_rows) + row_counts(inserted_rows)
            assert replayed_rows == final_rows
            if last_version:
                spark_changes = changes(spark, example_table.path, 1, last_version).toArrow()
                assert count_changes(as_changes(spark_changes)) == count_changes(
                    feed(example_table.path, 1, last_version)
                )

    holds()
