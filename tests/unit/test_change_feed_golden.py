"""The change data feed of a golden table has the rows that other engines read. A range that they reject is rejected."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.errors import ChangeFeedUnavailableError, InvalidRequestError, VersionNotFoundError
from tests.support.golden import GOLDEN

# `table-with-cdf` has no rows, and one of its columns becomes NOT NULL. delta-spark and the kernel reject its range.
REJECTED = {
    "delta-golden/deltalog-getChanges": "Version 0 of .* did not record",
    "delta-kernel-rs/table-with-cdf": "in version 4 the column 'id' became NOT NULL",
    "delta-rs/checkpoint-cdf-table": "The oldest requested version with a commit is 3.",
}
EXPECTED = GOLDEN / "expected"
NAMES = sorted(file.parent.relative_to(EXPECTED).as_posix() for file in EXPECTED.rglob("cdf.json"))


def expectation(name):
    return json.loads((EXPECTED / name / "cdf.json").read_text())


def multiset(table):
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REJECTED] or ["golden tables are missing"])
def test_the_feed_has_the_rows_that_other_engines_read(golden, name):
    expected = pq.read_table(golden / "expected" / name / "cdf.parquet")
    table = DeltaTable(str(golden / "tables" / name))
    feed = pa.Table.from_batches(table.changes(expectation(name)["start_version"]))
    assert feed.column_names[:-1] == [*table.schema.names, "_change_type", "_commit_version"]
    assert multiset(feed.drop_columns(["_commit_timestamp"])) == multiset(expected)
    assert feed["_commit_timestamp"].null_count == 0


@pytest.mark.parametrize("name", sorted(REJECTED))
def test_a_range_that_no_engine_reads_is_rejected_before_rows_are_read(golden, name):
    with pytest.raises((ChangeFeedUnavailableError, VersionNotFoundError), match=REJECTED[name]):
        DeltaTable(str(golden / "tables" / name)).changes(expectation(name)["start_version"])


def test_a_log_that_begins_at_a_checkpoint_gives_the_feed_of_the_whole_log(golden):
    """`checkpoint-cdf-table` is `cdf-table` after a cleanup of its log."""
    cleaned, whole = (
        DeltaTable(str(golden / "tables" / "delta-rs" / n)) for n in ("checkpoint-cdf-table", "cdf-table")
    )
    feed = pa.Table.from_batches(cleaned.changes(3, 3)).drop_columns(["_commit_timestamp"])
    assert multiset(feed) == multiset(pa.Table.from_batches(whole.changes(3)).drop_columns(["_commit_timestamp"]))


def test_a_table_at_a_version_has_the_changes_up_to_this_version(golden):
    path = str(golden / "tables" / "delta-rs" / "cdf-table")
    table = DeltaTable(path, version=1)
    feed = pa.Table.from_batches(table.changes(0))
    assert set(feed["_commit_version"].to_pylist()) == {0, 1}
    assert set(pa.Table.from_batches(table.changes(2, 3))["_commit_version"].to_pylist()) == {2, 3}
    with pytest.raises(InvalidRequestError, match="from_version 2 is later than to_version 1"):
        table.changes(2)
