"""The checkpoint command writes a checkpoint and cleans up the log; a second run changes nothing."""

from __future__ import annotations

import os

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.errors import TableNotFoundError, UnsupportedFeatureError
from deltalite.protocol.actions import Protocol, commit_to_bytes
from deltalite.protocol.file_names import checkpoint_name, checksum_name, commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import CheckpointRequest
from deltalite.storage.local import LocalLogStore
from tests.unit.builders import load, metadata


@pytest.fixture
def table(tmp_path):
    """A table that delta-rs wrote, with twelve old versions and one checkpoint."""
    for number in range(12):
        deltalake.write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
        if number == 5:
            deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(12):
        commit = tmp_path / commit_name(version)
        os.utime(commit, (commit.stat().st_atime, commit.stat().st_mtime - (60 - version) * DAY_MS / 1000))
    return tmp_path


def remaining_versions(table):
    return [version for version in range(20) if (table / commit_name(version)).exists()]


@pytest.mark.smoke
def test_the_newest_version_gets_its_checkpoint_and_the_log_is_cleaned(spark, table):
    result = checkpoint(spark, CheckpointRequest(table=str(table)))
    assert (result.operation, result.version, result.committed, result.skipped) == ("CHECKPOINT", 11, False, False)
    assert result.metrics["numFiles"] == 12
    assert result.metrics["numDeletedLogFiles"] == 12  # These are eleven commits and one checkpoint.
    assert (table / checkpoint_name(11)).exists() and (table / checksum_name(11)).exists()
    assert remaining_versions(table) == [11]
    assert sorted(DeltaTable(str(table)).to_arrow()["id"].to_pylist()) == list(range(12))
    assert deltalake.DeltaTable(str(table)).to_pyarrow_table().num_rows == 12


def test_a_second_checkpoint_run_changes_nothing(spark, table):
    checkpoint(spark, CheckpointRequest(table=str(table)))
    modification_times = {path: path.stat().st_mtime_ns for path in (table / "_delta_log").iterdir()}
    second_result = checkpoint(spark, CheckpointRequest(table=str(table)))
    assert (second_result.version, second_result.skipped) == (11, True)
    assert {path: path.stat().st_mtime_ns for path in (table / "_delta_log").iterdir()} == modification_times


def test_checkpoint_keeps_old_commits_if_log_cleanup_is_off(spark, table):
    checkpoint(spark, CheckpointRequest(table=str(table), log_cleanup=False))
    assert remaining_versions(table) == list(range(12))


def test_checkpoint_keeps_old_commits_if_the_table_disables_the_log_cleanup(spark, table):
    deltalake.DeltaTable(str(table)).alter.set_table_properties({"delta.enableExpiredLogCleanup": "false"})
    checkpoint(spark, CheckpointRequest(table=str(table)))
    assert remaining_versions(table) == list(range(13))


def test_a_missing_table_and_an_unknown_writer_feature_are_rejected_before_a_checkpoint_is_written(spark, tmp_path):
    with pytest.raises(TableNotFoundError):
        checkpoint(spark, CheckpointRequest(table=str(tmp_path / "none")))
    store = LocalLogStore(str(tmp_path / "odd"))
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("new",))
    store.write_if_absent(commit_name(0), commit_to_bytes([protocol, metadata()]))
    with pytest.raises(UnsupportedFeatureError, match="new"):
        checkpoint(spark, CheckpointRequest(table=str(tmp_path / "odd")))
    assert load(store).segment.checkpoint is None
