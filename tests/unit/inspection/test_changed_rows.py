"""The changed rows of a version have their kinds of change, with and without the feed, and end at the limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltalite.errors import ChangeFeedUnavailableError, InvalidRequestError, VersionNotFoundError
from deltalite.inspection import preview
from deltalite.inspection.changed_rows import read_changed_rows
from deltalite.inspection.preview import Limit
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from tests.support.feed_table import FEED_ENABLED, PROTOCOL, create_feed_table, write_file
from tests.support.valid_table import create_valid_table
from tests.unit.builders import commit_actions, create, metadata, remove, struct


def changes_of(store, version, *conditions, **options):
    result = read_changed_rows(store, version, conditions, **{"max_seconds": 60.0, **options})
    assert len(result.kinds) == len(result.rows)
    return result


def pairs_of(*arguments, **options):
    result = changes_of(*arguments, **options)
    return list(zip(result.kinds, result.rows, strict=True))


@pytest.fixture
def feed(tmp_path):
    return create_feed_table(tmp_path / "feed")


def test_the_feed_has_the_rows_before_and_after_a_change(feed):
    assert pairs_of(feed, 2) == [("updated from", ("1", "a")), ("updated to", ("1", "aa")), ("deleted", ("2", "b"))]
    assert pairs_of(feed, 1)[0] == ("inserted", ("1", "a"))
    assert pairs_of(feed, 0) == pairs_of(feed, 3) == []
    with pytest.raises(VersionNotFoundError):
        changes_of(feed, 99)


def test_rows_have_the_columns_of_their_version(feed):
    assert changes_of(feed, 1).columns == ("id", "name")
    result = changes_of(feed, 4)
    assert (result.columns, result.rows, result.column_count) == (("id", "name", "note"), (("9", "z", "new"),), 3)


def test_conditions_test_each_changed_row(feed):
    assert pairs_of(feed, 2, "name = 'aa'") == [("updated to", ("1", "aa"))]
    assert [kind for kind, _ in pairs_of(feed, 2, "id = 1")] == ["updated from", "updated to"]
    for hostile in ("_change_type = insert", "1=1; DROP TABLE x"):
        with pytest.raises(InvalidRequestError):
            changes_of(feed, 2, hostile)


def test_without_the_feed_appended_rows_are_inserted_rows(tmp_path):
    store = create_valid_table(tmp_path / "orders")
    assert pairs_of(store, 0) == [("inserted", ("1", "x", "2026-01-01")), ("inserted", ("2", None, "2026-01-01"))]
    assert [row[0] for row in changes_of(store, 4, "id > 6").rows] == ["7"]
    assert pairs_of(store, 5) == [], "a transaction changes no row"


@pytest.mark.parametrize("version", [2, 3])
def test_without_the_feed_a_version_that_removes_rows_has_an_error_with_a_remedy(tmp_path, version):
    """Version 2 removes a file, and version 3 soft-deletes a row."""
    store = create_valid_table(tmp_path / "orders")
    with pytest.raises(ChangeFeedUnavailableError, match=r"did not record them.*delta\.enableChangeDataFeed"):
        changes_of(store, version)


def test_appended_rows_may_have_a_column_that_the_feed_reserves(tmp_path):
    schema = struct(id="long", _change_type="string")
    store = create(LocalLogStore(str(tmp_path / "t")), schema=schema)
    commit_actions(store, write_file(store, "f", {"id": [1], "_change_type": ["mine"]}))
    assert pairs_of(store, 1) == [("inserted", ("1", "mine"))]


def test_removed_rows_are_unreadable_in_a_version_that_retypes_a_column(tmp_path):
    store = LocalLogStore(str(tmp_path / "t"))
    commit_actions(store, PROTOCOL, metadata(FEED_ENABLED, schema=struct(id="long")), read_version=-1)
    old_file = write_file(store, "old", {"id": [1]})
    commit_actions(store, old_file)
    removed = remove("old", size_bytes=old_file.size_bytes, partition_values={})
    new_metadata = metadata(FEED_ENABLED, schema=struct(id="string"))
    commit_actions(store, new_metadata, removed, write_file(store, "new", {"id": ["x"]}))
    with pytest.raises(ChangeFeedUnavailableError, match=r"type of the column 'id' changed.*rows of version 1"):
        changes_of(store, 2)


def test_a_version_whose_commit_the_log_no_longer_holds_has_an_error(tmp_path):
    store = create_valid_table(tmp_path / "orders")
    for version in (0, 1):
        (Path(store.root) / commit_name(version)).unlink()
    with pytest.raises(VersionNotFoundError, match="no longer holds the commit of version 1"):
        changes_of(store, 1)


def test_an_unknown_kind_of_change_is_shown_as_a_bounded_text(tmp_path):
    store = create_feed_table(tmp_path / "feed")
    changed = {"id": [1], "name": ["a"], "_change_type": ["\u202e" + "x" * 5_000]}
    write_file(store, "_change_data", changed)
    [(kind, _)] = pairs_of(store, 2)
    assert kind.startswith("\\u202ex") and len(kind) == 301


def test_changed_rows_end_at_each_limit(tmp_path, monkeypatch):
    store = create(LocalLogStore(str(tmp_path / "t")), schema=struct(id="long", name="string"))
    files = [write_file(store, name, {"id": list(range(150)), "name": ["n" * 100] * 150}) for name in ("a", "b")]
    commit_actions(store, *files)
    assert (len(changes_of(store, 1).rows), changes_of(store, 1).limit) == (100, Limit.ROWS)
    times = iter([0.0, *[0.0] * 2, *[100.0] * 9])
    assert changes_of(store, 1, "id = 999", clock=lambda: next(times)).limit is Limit.SECONDS
    monkeypatch.setattr(preview, "MAX_BYTES", 1_000)
    assert changes_of(store, 1).limit is Limit.BYTES
    monkeypatch.setattr(preview, "MAX_READ_BYTES", 1)
    assert changes_of(store, 1, "id = 149").limit is Limit.BYTES
    monkeypatch.setattr(preview, "MAX_COLUMNS", 1)
    result = changes_of(store, 1, "id = 149")
    assert (result.columns, result.column_count) == (("id",), 2)
    assert (result.kinds[0], result.rows[0]) == ("inserted", ("149",))
