"""The error for missing files names the files and a restorable version. On request, a restore omits missing files."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from deltalite.errors import CorruptDataFileError
from tests.support.table_history import DAYS, ids, restore_history
from tests.unit.builders import newest_version


def test_the_error_lists_missing_files_and_a_later_restorable_version(history):
    history.append(12)
    history.delete_rows()
    files = sorted(history.folder.rglob("part-*"))
    history.replace(None)
    for file in files[:11]:
        file.unlink()
    with pytest.raises(
        CorruptDataFileError, match=r"version 2 .* 11 missing or changed files, .* and 1 more"
    ) as caught:
        restore_history(history, 2)
    assert sum(file.name in str(caught.value) for file in files[:11]) == 10
    assert "Version 3 is the oldest later version" in str(caught.value)
    assert newest_version(history.store) == 3


def test_the_error_does_not_name_a_version_that_restored_a_missing_file(history):
    history.append()
    history.append(2)
    history.replace(DAYS[0])
    history.restore(1)
    history.replace(None)
    for path, file in history.states[2].items():
        if path in history.states[1] or file.add["partitionValues"]["day"] == DAYS[1]:
            (history.folder / unquote(path)).unlink()
    with pytest.raises(
        CorruptDataFileError,
        match=r"2 missing or changed files, .* Version 5 is the oldest later version",
    ):
        restore_history(history, 2)


def test_the_error_does_not_name_a_version_that_reads_a_missing_file_with_a_vector(history):
    history.append()
    history.delete_rows()
    history.delete_rows()
    history.replace(None)
    (name,) = history.states[1]
    (history.folder / unquote(name)).unlink()
    for version in (1, 2, 3):
        with pytest.raises(
            CorruptDataFileError,
            match=r"part-\S+ \S+ is missing\. Version 4 is the oldest later version",
        ):
            restore_history(history, version)


def test_the_error_does_not_name_a_version_that_reads_another_vector_of_a_missing_file(history):
    history.append(2)
    history.delete_rows()
    history.replace(DAYS[0])
    (shared_vectors,) = history.folder.glob("deletion_vector_*")
    shared_vectors.unlink()
    with pytest.raises(
        CorruptDataFileError, match=r"because of 1 missing or changed file, .* is missing\. Nothing was changed"
    ):
        restore_history(history, 2)
    history.replace(None)
    with pytest.raises(
        CorruptDataFileError,
        match=r"2 missing or changed files, .* Version 4 is the oldest later version",
    ):
        restore_history(history, 2)


def test_a_missing_or_truncated_deletion_vector_prevents_the_restore(history):
    history.append()
    history.delete_rows()
    history.replace(None)
    (vector,) = history.folder.glob("deletion_vector_*")
    content = vector.read_bytes()
    vector.write_bytes(content[:-1])
    with pytest.raises(CorruptDataFileError, match=r"deletion_vector_\S+ has \d+ bytes instead of"):
        restore_history(history, 2)
    vector.unlink()
    with pytest.raises(CorruptDataFileError, match=r"deletion_vector_\S+ is missing"):
        restore_history(history, 2)
    vector.write_bytes(content)
    restore_history(history, 2)
    assert ids(history) == history.rows_of(2)


def test_a_file_with_another_size_than_in_the_log_counts_as_missing(history):
    history.append()
    (file,) = history.folder.rglob("part-*")
    history.replace(None)
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(CorruptDataFileError, match="bytes instead of"):
        restore_history(history, 1)


def test_missing_files_can_be_ignored_and_are_then_omitted(history):
    history.append(3)
    files = sorted(history.live.values(), key=lambda f: f.ids)
    missing_file = files[1]
    history.replace(None)
    (history.folder / unquote(missing_file.add["path"])).unlink()
    result = restore_history(history, 1, ignore_missing_files=True)
    assert ids(history) == [row for f in files if f is not missing_file for row in f.rows]
    assert (result.metrics["numMissingFiles"], result.metrics["numOfFilesAfterRestore"]) == (1, 2)
    assert result.metrics["tableSizeAfterRestore"] == sum(f.add["size"] for f in files if f is not missing_file)
    assert not restore_history(history, 1, ignore_missing_files=True).committed, "the table has all files that exist"
