"""A vacuum selects the files to delete by their modification times and the times of their removals."""

from __future__ import annotations

import json

import pytest

from deltalite.commands import vacuum as command
from deltalite.errors import (
    InvalidRequestError,
    StorageError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import HOUR_MS
from tests.support.table_history import TableHistory
from tests.support.tables import actions_of, folder_content
from tests.unit.commands.vacuum.vacuuming import (
    OLD_H,
    WEEK_H,
    confirmed_retention,
    run_vacuum,
    vacuum_and_list_deleted,
    write_file,
)


def test_a_removed_file_is_deleted_when_the_retention_has_passed_since_its_removal(history):
    history.append(lag_hours=1000)
    first = history.files()
    history.advance_clock(1000)
    history.replace(None)
    history.advance_clock(WEEK_H - 1)
    assert vacuum_and_list_deleted(history) == set(), "the file is old, but its removal is recent"
    history.advance_clock(2)
    assert vacuum_and_list_deleted(history) == first
    assert history.read()[len(history.states) - 1][0] == history.rows_of(2)


def test_a_remove_without_a_time_has_the_time_of_its_commit(history):
    history.append()
    history.advance_clock(WEEK_H)
    history.replace(None, dated=False)
    history.advance_clock(30)
    assert vacuum_and_list_deleted(history) == set()
    history.advance_clock(WEEK_H)
    assert len(vacuum_and_list_deleted(history)) == 1


def test_a_longer_retention_applies_to_removals_that_a_checkpoint_dropped(history):
    history.append()
    history.replace(None)
    history.advance_clock(20 * 24)
    history.checkpoint()
    history.append()
    assert vacuum_and_list_deleted(history, retention_hours=60 * 24) == set()
    assert history.read()[1][0] == history.rows_of(1)
    assert len(vacuum_and_list_deleted(history)) == 1


def test_change_data_files_are_deleted_by_the_time_of_their_commit(history):
    history.append()
    history.change(lag_hours=OLD_H)
    (cdc,) = [name for name in history.files() if name.startswith("_change_data/")]
    history.advance_clock(48)
    assert cdc not in vacuum_and_list_deleted(history)
    assert history.read()[2][1] is not None
    history.advance_clock(OLD_H)
    assert cdc in vacuum_and_list_deleted(history)
    assert not (history.folder / "_change_data").exists(), "the vacuum must delete the empty folder"


def test_a_deletion_vector_stays_with_every_version_that_needs_it(history):
    history.append(2)
    history.delete_rows()
    history.advance_clock(OLD_H)
    history.delete_rows()
    history.advance_clock(24)
    before = history.read()
    assert vacuum_and_list_deleted(history) == set()
    assert history.read()[2] == before[2]
    history.advance_clock(WEEK_H)
    (first,) = vacuum_and_list_deleted(history)
    assert first.startswith("deletion_vector_")
    assert history.read()[3][0] == before[3][0]


def test_an_orphan_is_deleted_by_its_modification_time_and_never_on_its_first_day(history):
    for age in (OLD_H, WEEK_H - 1, 25, 23):
        write_file(history, f"orphan {age}.parquet", age_hours=age)
    assert vacuum_and_list_deleted(history) == {f"orphan {OLD_H}.parquet"}
    assert vacuum_and_list_deleted(history, **confirmed_retention(0)) == {
        f"orphan {WEEK_H - 1}.parquet",
        "orphan 25.parquet",
    }


def test_a_new_file_with_the_name_of_a_removed_file_is_kept(history):
    history.append()
    (name,) = history.files()
    history.replace(None)
    history.advance_clock(OLD_H)
    write_file(history, name, age_hours=1)
    assert vacuum_and_list_deleted(history) == set()
    write_file(history, name, age_hours=30)
    assert vacuum_and_list_deleted(history) == {name}


def test_a_retention_shorter_than_that_of_the_table_needs_the_name_of_the_table(history):
    history.append()
    history.replace(None)
    history.advance_clock(48)
    before = folder_content(history.folder)
    for options in ({}, {"dry_run": True}, {"mode": "lite"}):
        with pytest.raises(InvalidRequestError, match=r"shorter than the 168 hours.*confirm_short_retention='orders'"):
            run_vacuum(history, retention_hours=24, **options)
    with pytest.raises(InvalidRequestError, match="names 'customers'"):
        run_vacuum(history, retention_hours=24, confirm_short_retention="customers")
    assert folder_content(history.folder) == before
    assert len(vacuum_and_list_deleted(history, retention_hours=24, confirm_short_retention=str(history.folder))) == 1
    assert actions_of(history.folder, 3)["commitInfo"]["operationParameters"] == {
        "retentionCheckEnabled": False, "defaultRetentionMillis": WEEK_H * HOUR_MS,
        "specifiedRetentionMillis": 24 * HOUR_MS,
    }  # fmt: skip


def test_a_vacuum_uses_the_retention_of_the_table_by_default(tmp_path):
    history = TableHistory(tmp_path / "orders", {"delta.deletedFileRetentionDuration": "interval 2 days"})
    history.append()
    history.replace(None)
    history.advance_clock(49)
    assert len(vacuum_and_list_deleted(history)) == 1
    with pytest.raises(InvalidRequestError, match="48 hours"):
        run_vacuum(history, retention_hours=47)


def test_in_commit_timestamps_take_precedence_over_file_times(tmp_path):
    """The files of a copied table are new. Their modification times would put every commit inside the retention."""
    history = TableHistory(tmp_path / "orders")
    first = (history.folder / commit_name(0)).read_text().splitlines()
    protocol, metadata = (json.loads(line) for line in first[1:])
    protocol["protocol"]["writerFeatures"].append("inCommitTimestamp")
    metadata["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
    history.append()
    history.replace(None)
    for version, time_ms in enumerate(history.times):
        file = history.folder / commit_name(version)
        info, *other_lines = file.read_text().splitlines()
        commit_info = {"commitInfo": {"inCommitTimestamp": time_ms, **json.loads(info)["commitInfo"]}}
        if version == 0:
            other_lines = [json.dumps(protocol), json.dumps(metadata)]
        file.write_text("".join(f"{line}\n" for line in (json.dumps(commit_info), *other_lines)))
    history.advance_clock(WEEK_H - 1)
    assert run_vacuum(history, dry_run=True).metrics["numFilesToDelete"] == 0
    history.advance_clock(2)
    assert len(vacuum_and_list_deleted(history)) == 1
    assert history.read()[4][0] == history.rows_of(2)


def test_a_driver_with_a_clock_ahead_of_the_storage_deletes_nothing(history, monkeypatch):
    write_file(history, "orphan")
    now_ms = command.now_ms
    monkeypatch.setattr(command, "now_ms", lambda: now_ms() + 2 * HOUR_MS)
    with pytest.raises(StorageError, match=r"2\.0 hours ahead"):
        run_vacuum(history)
    assert history.files() == {"orphan"}
    assert actions_of(history.folder, 2)["commitInfo"]["operationParameters"] == {"status": "FAILED"}
