"""Post-commit work never fails a commit: it writes a due checkpoint or logs a warning with the reason."""

from __future__ import annotations

import json
import logging

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.errors import StorageError
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import checkpoint_name, commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.post_commit import after_commit
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    add,
    append_files,
    commit_actions,
    create,
    metadata,
    new_store,
    put_raw,
    struct,
)


def checkpoints(store):
    return [v for v in range(60) if checkpoint_name(v) in store.files]


@pytest.mark.parametrize(
    ("configuration", "checkpoint_versions"), [({}, [10, 20]), ({"delta.checkpointInterval": "4"}, [4, 8, 12, 16, 20])]
)
def test_a_checkpoint_is_written_at_every_interval_but_not_at_version_0(configuration, checkpoint_versions):
    store = create(new_store(), configuration=configuration)
    after_commit(store, 0)
    for version in range(1, 22):
        append_files(store, 1)
        after_commit(store, version, clock_ms=lambda: NOON_MS)
    assert checkpoints(store) == checkpoint_versions
    assert read_last_checkpoint(store).version == 20


def test_the_checkpoint_has_the_committed_version_and_not_a_later_one():
    store = append_files(create(new_store()), 11)
    after_commit(store, 10)
    assert checkpoints(store) == [10]


@pytest.mark.parametrize("fault", [StorageError("The disk is full.", remedy="Make room."), MemoryError("no memory")])
@pytest.mark.parametrize("operation", ["list", "read", "write_if_absent", "write"])
def test_a_failed_checkpoint_only_warns(caplog, fault, operation):
    store = append_files(create(new_store()), 10)

    def fail(called_operation, _name):
        if called_operation == operation:
            raise fault

    store.before = fail
    with caplog.at_level(logging.WARNING):
        after_commit(store, 10)
    assert caplog.records
    for record in caplog.records:
        assert "version 10" in record.getMessage() and "The commit is not affected" in record.getMessage()
        assert record.exc_info[1] is fault


@pytest.mark.parametrize(
    ("failing_operation", "step"), [("write_if_absent", "Writing the checkpoint"), ("delete", "Cleaning the log")]
)
def test_a_failed_step_warns_with_its_name_and_the_other_steps_run(caplog, failing_operation, step):
    store = append_files(create(new_store()), 10)
    after_commit(store, 10, clock_ms=lambda: NOON_MS)
    append_files(store, 10)

    def fail(operation, name):
        if operation == failing_operation and not name.endswith(".crc"):
            raise StorageError("The disk is full.", remedy="Make room.")

    store.before = fail
    after_commit(store, 20, clock_ms=lambda: NOON_MS + 60 * DAY_MS)
    (record,) = caplog.records
    assert f"{step} failed after version 20 of" in record.getMessage()
    assert record.getMessage().endswith("The upkeep after a later commit repeats this step.")
    assert (checkpoint_name(20) in store.files) is (failing_operation == "delete")
    assert (commit_name(0) in store.files) is (failing_operation == "delete")


def test_an_unreadable_log_or_an_invalid_interval_only_warns(caplog):
    store = create(new_store(), configuration={"delta.checkpointInterval": "often"})
    put_raw(store, 1, b"{")
    after_commit(store, 1)
    put_raw(store, 1, [add("a")])
    after_commit(store, 1)
    assert len(caplog.records) == 2 and not checkpoints(store)
    for record in caplog.records:
        assert "Post-commit work failed after version 1 of" in record.getMessage()
        assert record.getMessage().endswith("may be old until DeltaGenerateManifestOperator runs.")


V2_PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("v2Checkpoint",), writer_features=("v2Checkpoint",)
)


@pytest.mark.parametrize(("protocol", "policy"), [(PROTOCOL, "classic"), (V2_PROTOCOL, "v2")])
def test_delta_rs_reads_a_table_after_all_post_commit_work(tmp_path, protocol, policy):
    store = LocalLogStore(str(tmp_path))
    properties = {"delta.checkpointInterval": "15", "delta.checkpointPolicy": policy}
    table_metadata = metadata(properties, struct(id="long", day="date"), partition_columns=("day",))
    commit_actions(store, protocol, table_metadata, read_version=-1)
    for number in range(1, 28):
        pq.write_table(pa.table({"id": pa.array([number, number + 1], pa.int64())}), tmp_path / f"f{number}")
        stats = {"numRecords": 2, "minValues": {"id": number}, "maxValues": {"id": number + 1}, "nullCount": {"id": 0}}
        size = (tmp_path / f"f{number}").stat().st_size
        values = {"day": f"2026-01-0{number % 2 + 1}"}
        commit_actions(store, add(f"f{number}", partition_values=values, size_bytes=size, stats=json.dumps(stats)))
        after_commit(store, number)
    names = [path.name for path in (tmp_path / "_delta_log").iterdir()]
    kinds = (".crc", ".compacted.json", ".checkpoint.", "_last_checkpoint")
    assert all(any(kind in name for name in names) for kind in kinds)
    for version in range(15):
        (tmp_path / commit_name(version)).unlink()
    table = deltalake.DeltaTable(str(tmp_path))
    query = "SELECT count(*) AS n, sum(id) AS s FROM t WHERE id > 20 AND day = '2026-01-02'"
    rows_read = pa.table(deltalake.QueryBuilder().register("t", table).execute(query).read_all()).to_pylist()
    matching_ids = [i for n in range(1, 28, 2) for i in (n, n + 1) if i > 20]
    assert (table.version(), rows_read) == (27, [{"n": len(matching_ids), "s": sum(matching_ids)}])
