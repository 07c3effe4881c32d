"""`plan_appends` finds the files with rows that commits appended, and refuses commits that change rows."""

from __future__ import annotations

import pytest

from deltalite.change_feed.appends import plan_appends, sizes_of_changes
from deltalite.errors import ChangeFeedUnavailableError, SourceRowsChangedError
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddCDCFile
from tests.unit.builders import (
    add,
    commit_actions,
    commit_info,
    create,
    metadata,
    new_store,
    put_raw,
    remove,
    struct,
    vector,
)

CHANGE_FILE = AddCDCFile(path="_change_data/c", partition_values={}, size_bytes=7, data_change=False)
NO_DATA_CHANGE = {"data_change": False}
MERGE_WITHOUT_CHANGES = commit_info(
    operation="MERGE",
    operationMetrics=dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0"),
)


def store_of(*commits):
    """A table with the file `f0` in version 0, and these commits after it."""
    store = create(new_store(), add("f0"))
    for version, actions in enumerate(commits, 1):
        put_raw(store, version, actions)
    return store


def appended_files(store, first, last, **options):
    plan = plan_appends(
        store, first, last, list_log(store, 0).commits, skips_changes=options.get("skips_changes", False)
    )
    return [(file.version, file.path) for file in plan.files]


def test_the_files_of_appends_are_listed_in_the_order_of_versions():
    store = store_of([add("f1")], [add("f2"), add("f3")], [commit_info(operation="SET TBLPROPERTIES")])
    assert appended_files(store, 1, 3) == [(1, "f1"), (2, "f2"), (2, "f3")]
    assert appended_files(store, 2, 2) == [(2, "f2"), (2, "f3")]


@pytest.mark.parametrize(
    "actions",
    [
        [remove("f0", **NO_DATA_CHANGE), add("g", **NO_DATA_CHANGE)],
        [MERGE_WITHOUT_CHANGES, remove("f0"), add("g")],
        [commit_info(operation="RESTORE")],
    ],
    ids=["an optimize", "a merge that changed no row", "a restore without files"],
)
def test_a_commit_that_changes_no_row_is_skipped(actions):
    assert appended_files(store_of(actions, [add("f2")]), 1, 2) == [(2, "f2")]


def test_an_insert_with_change_files_is_an_append():
    assert appended_files(store_of([CHANGE_FILE, add("f1")]), 1, 1) == [(1, "f1")]


@pytest.mark.parametrize(
    "actions",
    [
        [commit_info(operation="DELETE"), remove("f0")],
        [commit_info(operation="UPDATE"), remove("f0"), add("g")],
        [commit_info(operation="DELETE"), remove("f0"), add("f0", deletion_vector=vector("x" * 20))],
        [commit_info(operation="DELETE"), CHANGE_FILE, remove("f0")],
        [commit_info(operation="RESTORE"), add("g")],
    ],
    ids=["whole files", "rewritten files", "a deletion vector", "change files", "a restore"],
)
def test_a_commit_that_changes_rows_is_an_error_or_is_left_out_as_a_whole(actions):
    store = store_of([add("f1")], actions, [add("f3")])
    with pytest.raises(SourceRowsChangedError, match=r"Version 2 of .* \((DELETE|UPDATE|RESTORE)\) removes, changes"):
        appended_files(store, 1, 3)
    assert appended_files(store, 1, 3, skips_changes=True) == [(1, "f1"), (3, "f3")]
    assert list(sizes_of_changes(store, range(1, 4), list_log(store, 0).commits, reads_feed=False)) == [10, 0, 10]


def test_the_feed_counts_the_bytes_of_change_files():
    store = store_of([add("f1")], [CHANGE_FILE, remove("f0")])
    assert list(sizes_of_changes(store, range(1, 3), list_log(store, 0).commits, reads_feed=True)) == [10, 7]


def test_rows_that_the_last_schema_cannot_read_are_an_error():
    store = create(new_store(), add("f0"))
    commit_actions(store, add("f1"))
    commit_actions(store, metadata(schema=struct(day="string")))
    with pytest.raises(ChangeFeedUnavailableError, match=r"version 1 .* in version 2 the column 'id' was dropped"):
        appended_files(store, 1, 2)
