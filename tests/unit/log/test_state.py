"""A version checksum lets the reader open a table with few reads, and reveals damage in other files of the log."""

from __future__ import annotations

import json
import logging
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import DomainMetadata, to_json
from deltalite.protocol.file_names import checkpoint_name, checksum_name, commit_name
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    RequestLog,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    paths,
    put_raw,
    struct,
    txn,
)
from tests.unit.logs import state_of, to_parquet, write_checksum, write_compaction


@pytest.fixture
def log():
    """Versions 1 to 6 add a file each, and 3 has an app id. There are checkpoints at 2 and 4, and the checksum of 6."""
    store = append_files(create(new_store()), 2)
    commit_actions(store, add("f3"), txn("run", 7))
    append_files(store, 3)
    for version in (2, 4):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    write_checksum(store, 6)
    return store


FILES = [f"f{v}" for v in range(1, 7)]
FIRST_ACCESSES = [("read_start", "_last_checkpoint"), ("list", f"{4:020d}"), ("read", f"{6:020d}.crc")]


def test_a_table_is_opened_from_its_checksum_without_reading_commits_or_checkpoints(log):
    requests = RequestLog(log)
    snapshot = load(log)
    assert (snapshot.version, snapshot.schema.names, snapshot.protocol) == (6, ("id", "day"), PROTOCOL)
    assert requests.accesses == FIRST_ACCESSES
    assert paths(snapshot) == FILES
    assert ("read", f"{6:020d}.json") in requests.accesses


def test_the_checksum_and_the_log_give_the_same_state(log):
    put_raw(log, 7, [DomainMetadata(domain="d", configuration="{}", removed=False), metadata({"k": "v"})])
    from_log = state_of(load(log))
    write_checksum(log, 7)
    assert state_of(load(log)) == from_log
    assert load(log).configuration == {"k": "v"} and set(load(log).domains) == {"d"}


def test_transactions_and_domains_come_from_the_log_and_not_from_the_checksum(log):
    put_raw(log, 7, [DomainMetadata(domain="d", configuration="{}", removed=False)])
    made_up = DomainMetadata(domain="made up", configuration="{}", removed=False)
    write_checksum(log, 7, setTransactions=[to_json(txn("made up"))], domainMetadata=[to_json(made_up)])
    assert set(load(log).transactions) == {"run"}
    assert set(load(log).domains) == {"d"}


def test_a_missing_checksum_costs_no_further_requests(log):
    del log.files[checksum_name(6)]
    requests = RequestLog(log)
    load(log)
    assert [name for _, name in requests.accesses if name.endswith(".crc")] == []
    requests.accesses.clear()
    load(log, 5)
    assert [name for _, name in requests.accesses if name.endswith(".crc")] == []


@pytest.mark.parametrize("content", [b"x", b"[]", b"{}", b'{"numFiles":6}', b"\xff"])
def test_an_invalid_checksum_is_ignored_with_a_warning(log, content, caplog):
    log.files[checksum_name(6)] = (content, 0)
    with caplog.at_level(logging.WARNING):
        assert paths(load(log)) == FILES
    assert checksum_name(6) in caplog.text


def test_a_vanished_checksum_is_ignored(log):
    log.before = lambda operation, name: operation == "read" and name.endswith(".crc") and log.files.pop(name, None)
    assert paths(load(log)) == FILES


def test_the_provenance_is_read_from_its_commit_alone(log):
    put_raw(log, 7, [commit_info(operation="LAST"), add("f7")])
    write_checksum(log, 7)
    snapshot = load(log)
    requests = RequestLog(log)
    assert snapshot.commit_info == {"operation": "LAST"}
    assert snapshot.commit_info == {"operation": "LAST"}
    assert requests.accesses == [("read", f"{7:020d}.json")]


def read_everything(snapshot):
    return snapshot.commit_info, snapshot.transactions, snapshot.files, snapshot.tombstones()


def test_a_table_with_slow_storage_does_not_block_another_table(log):
    """Each access to the first table waits up to five seconds while another thread reads the whole second table."""
    second_log, blocked_accesses = append_files(create(new_store()), 1), []

    def read_second_table(_operation, name):
        thread = threading.Thread(target=lambda: read_everything(load(second_log)), daemon=True)
        thread.start()
        thread.join(5)
        if thread.is_alive():
            blocked_accesses.append(name)

    snapshot = load(log)
    log.before = read_second_table
    read_everything(snapshot)
    assert blocked_accesses == []


def test_a_gap_in_the_log_is_reported_in_spite_of_a_checksum(log):
    del log.files[commit_name(5)]
    with pytest.raises(CorruptLogError, match="commit 5 is missing"):
        load(log)


def rewrite_checkpoint(log, version, change):
    """Replace the content of a checkpoint, as a faulty writer does."""
    rows = pq.read_table(pa.BufferReader(log.files[checkpoint_name(version)][0]))
    log.files[checkpoint_name(version)] = (to_parquet(change(rows)), 0)


def without_a_file(rows):
    is_f1 = pc.equal(pc.struct_field(rows["add"], "path"), "f1")
    return rows.filter(pc.invert(pc.fill_null(is_f1, False)))


def with_another_size(rows):
    changed_adds = [None if body is None else {**body, "size": body["size"] + 1} for body in rows["add"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("add"), "add", pa.array(changed_adds, rows["add"].type))


def with_another_schema(rows):
    metadata_type = rows["metaData"].type
    changed_metadata = to_json(metadata(schema=struct(id="string")))
    bodies = [None if body is None else changed_metadata for body in rows["metaData"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("metaData"), "metaData", pa.array(bodies, metadata_type))


def with_another_protocol(rows):
    bodies = [None if body is None else {**body, "minWriterVersion": 5} for body in rows["protocol"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("protocol"), "protocol", pa.array(bodies, rows["protocol"].type))


CHANGES = {
    "a file is missing": (without_a_file, r"version \d+ has 6 files, but the log says 5"),
    "another size": (with_another_size, r"version \d+ has files of \d+ bytes in all, but the log says \d+ bytes"),
    "another schema": (with_another_schema, r"version \d+ has the schema \{.*\}, but the log says \{.*\}:"),
    "another protocol": (with_another_protocol, r"version \d+ has the writer version 2, but the log says 5"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("changed_versions", [[4], [2, 4]])
def test_a_checkpoint_that_contradicts_the_checksum_is_replaced_by_other_files(log, change, changed_versions, caplog):
    for version in changed_versions:
        rewrite_checkpoint(log, version, CHANGES[change][0])
    with caplog.at_level(logging.WARNING):
        assert paths(load(log)) == FILES
    assert caplog.text.count("Falling back") == len(changed_versions)
    assert load(log).schema.names == ("id", "day")


@pytest.mark.parametrize("change", CHANGES)
def test_the_error_names_the_checksum_and_a_remedy_if_no_other_file_decides(log, change):
    for version in (2, 4):
        rewrite_checkpoint(log, version, CHANGES[change][0])
    for version in range(3):
        del log.files[commit_name(version)]
    with pytest.raises(CorruptLogError, match=CHANGES[change][1]) as caught:
        assert load(log).files
    assert checksum_name(6) in caught.value.problem
    assert "delete the checksum file" in caught.value.remedy


def test_a_compaction_that_contradicts_the_checksum_is_replaced_by_its_commits(log):
    name = write_compaction(log, 5, 6)
    assert paths(load(log)) == FILES and load(log).segment.compactions
    log.files[name] = (log.files[name][0].splitlines()[0], 0)
    assert paths(load(log)) == FILES


WRONG_FIELDS = [{"numFiles": 99}, {"tableSizeBytes": 1}]


@pytest.mark.parametrize("wrong_fields", WRONG_FIELDS)
def test_a_complete_log_overrules_the_checksum_with_a_warning(log, wrong_fields, caplog):
    write_checksum(log, 6, **wrong_fields)
    snapshot = load(log)
    with caplog.at_level(logging.WARNING):
        assert paths(snapshot) == FILES
    assert checksum_name(6) in caplog.text and str(next(iter(wrong_fields.values()))) in caplog.text


@pytest.mark.parametrize(
    "wrong_fields",
    [
        {"metadata": to_json(metadata(schema=struct(x="long")))},
        {"protocol": {**to_json(PROTOCOL), "minWriterVersion": 4}},
    ],
)
def test_a_checksum_of_another_table_raises_an_error_once_the_log_is_read(log, wrong_fields):
    write_checksum(log, 6, **wrong_fields)
    with pytest.raises(CorruptLogError, match=checksum_name(6)):
        assert load(log).files


def test_two_spellings_of_one_metadata_do_not_contradict(log):
    metadata_body = to_json(load(log).metadata)
    metadata_body["schemaString"] = json.dumps(json.loads(metadata_body["schemaString"]), indent=2)
    write_checksum(
        log, 6, metadata={**metadata_body, "format": {"provider": "parquet"}, "createdTime": 1, "novelty": 1}
    )
    assert paths(load(log)) == FILES


def clean_up_before_checkpoint_4(log):
    """Delete the commits and the checkpoint before checkpoint 4, so that the newest version needs checkpoint 4."""
    log.files.pop(checkpoint_name(2))
    for version in range(5):
        log.files.pop(commit_name(version))


@pytest.mark.parametrize("wrong_fields", WRONG_FIELDS)
def test_a_checkpoint_that_matches_its_hint_overrules_the_checksum_with_a_warning(log, wrong_fields, caplog):
    clean_up_before_checkpoint_4(log)
    write_checksum(log, 6, **wrong_fields)
    with caplog.at_level(logging.WARNING):
        assert paths(load(log)) == FILES
    assert checksum_name(6) in caplog.text and str(next(iter(wrong_fields.values()))) in caplog.text


@pytest.mark.parametrize("wrong_fields", WRONG_FIELDS)
@pytest.mark.parametrize("has_compaction", [False, True])
def test_a_checksum_of_another_writer_never_makes_a_version_unreadable(log, wrong_fields, has_compaction, caplog):
    put_raw(log, 6, [commit_info(engineInfo="Apache-Spark/4.0"), add("f6")])
    if has_compaction:
        write_compaction(log, 5, 6)
    clean_up_before_checkpoint_4(log)
    log.files.pop("_delta_log/_last_checkpoint")
    write_checksum(log, 6, **wrong_fields)
    with caplog.at_level(logging.WARNING):
        assert paths(load(log)) == FILES
    assert "Ignoring the version checksum" in caplog.text


def test_a_checkpoint_that_contradicts_its_hint_raises_an_error_for_every_writer(log):
    put_raw(log, 6, [commit_info(engineInfo="Apache-Spark/4.0"), add("f6")])
    rewrite_checkpoint(log, 4, without_a_file)
    clean_up_before_checkpoint_4(log)
    with pytest.raises(CorruptLogError, match=r"version \d+ has 6 files, but the log says 5"):
        assert load(log).files
