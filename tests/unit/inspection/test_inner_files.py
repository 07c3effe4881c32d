"""Rows for a page come from files inside of the table's folder only, whatever the log names."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltalite.columnar.reader.data_file import DataFile
from deltalite.errors import UnsupportedFeatureError
from deltalite.inspection.changed_rows import read_changed_rows
from deltalite.inspection.inner_files import inner_files
from deltalite.inspection.preview import read_preview
from deltalite.protocol.actions import AddCDCFile
from deltalite.storage.local import LocalLogStore
from tests.support.feed_table import create_feed_table, write_file
from tests.unit.builders import add, commit_actions

OUTSIDE = (
    "../private/rows",
    "%2e%2e/private/rows",
    "_change_data/../../private/rows",
    "{lake}/private/rows",
    "file:{lake}/private/rows",
    "file://{lake}/private/rows",
    "file:{lake}/feed/%2e%2e/private/rows",
)


@pytest.fixture
def feed(tmp_path):
    """A table beside a table with a private row."""
    write_file(LocalLogStore(str(tmp_path / "private")), "rows", {"id": [7], "name": ["x"], "_change_type": ["insert"]})
    return create_feed_table(tmp_path / "feed")


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_file_outside_of_the_table_is_not_read(feed, path):
    path = path.format(lake=Path(feed.root).parent)
    added = commit_actions(feed, add(path))
    changed = commit_actions(feed, AddCDCFile(path=path, partition_values={}, size_bytes=10, data_change=False))
    for read, version in ((read_preview, added), (read_changed_rows, added), (read_changed_rows, changed)):
        with pytest.raises(UnsupportedFeatureError, match="outside of the folder of the table"):
            read(feed, version, (), max_seconds=60.0)


def test_an_absolute_path_of_the_table_is_read(feed):
    commit_actions(feed, add(f"file://{feed.root}/optimized"))
    assert len(read_preview(feed, 5, (), max_seconds=60.0).rows) == 5


@pytest.mark.parametrize("field", ["deletion_vector", "only_rows_vector"])
def test_a_deletion_vector_outside_of_the_table_is_not_read(field):
    for path, is_inside in (("s3://other/v.bin", False), ("s3://lake/t/v%20.bin", True)):
        file = DataFile(path="f", **{field: {"storageType": "p", "pathOrInlineDv": path}})
        if is_inside:
            assert list(inner_files([file], "s3://lake/t")) == [file]
            continue
        with pytest.raises(UnsupportedFeatureError, match="s3://other"):
            list(inner_files([file], "s3://lake/t"))
