"""The checkpoint command: what it leaves behind, and that a second run leaves it alone."""

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
    """A table of delta-rs with twelve old versions, which it has checkpointed once."""
    for number in range(12):
        deltalake.write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
        if number == 5:
            deltalake.DeltaTable(str(tmp_path)).create_checkpoint()
    for version in range(12):
        commit = tmp_path / commit_name(version)
        os.utime(commit, (commit.stat().st_atime, commit.stat().st_mtime - (60 - version) * DAY_MS / 1000))
    return tmp_path


def versions_left(table):
    return [version for version in range(20) if (table / commit_name(version)).exists()]


@pytest.mark.smoke
def test_the_newest_version_gets_its_checkpoint_and_the_log_is_cleaned(spark, table):
    result = checkpoint(spark, CheckpointRequest(table=str(table)))
    assert (result.operation, result.version, result.committed, result.skipped) == ("CHECKPOINT", 11, False, False)
    assert (result.metrics["numFiles"], result.metrics["numDeletedLogFiles"]) == (
        12,
        12,
    )  # eleven commits, and a checkpoint
    assert (table / checkpoint_name(11)).exists() and (table / checksum_name(11)).exists()
    assert versions_left(table) == [11]
    assert sorted(DeltaTable(str(table)).to_arrow()["id"].to_pylist()) == list(range(12))
    assert deltalake.DeltaTable(str(table)).to_pyarrow_table().num_rows == 12


def test_a_second_run_changes_nothing(spark, table):
    checkpoint(spark, CheckpointRequest(table=str(table)))
    before = {path: path.stat().st_mtime_ns for path in (table / "_delta_log").iterdir()}
    again = checkpoint(spark, CheckpointRequest(table=str(table)))
    assert (again.version, again.skipped) == (11, True)
    assert {path: path.stat().st_mtime_ns for path in (table / "_delta_log").iterdir()} == before


def test_the_log_is_left_alone_where_the_task_or_the_table_says_so(spark, table, tmp_path):
    checkpoint(spark, CheckpointRequest(table=str(table), log_cleanup=False))
    assert versions_left(table) == list(range(12))


def test_no_table_and_a_table_of_unknown_features_are_refused_before_anything_is_written(spark, tmp_path):
    with pytest.raises(TableNotFoundError):
        checkpoint(spark, CheckpointRequest(table=str(tmp_path / "none")))
    store = LocalLogStore(str(tmp_path / "odd"))
    unknown = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("new",))
    store.write_if_absent(commit_name(0), commit_to_bytes([unknown, metadata()]))
    with pytest.raises(UnsupportedFeatureError, match="new"):
        checkpoint(spark, CheckpointRequest(table=str(tmp_path / "odd")))
    assert load(store).segment.checkpoint is None
