"""A cleanup deletes protected history only if the protocol allows the deletion, and in a safe order."""

from __future__ import annotations

import pytest

from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import checkpoint_name, checksum_name, commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.cleanup import clean_log, expired_names
from tests.unit.builders import NOON_MS, add, load, metadata, new_store, put_raw

MIDNIGHT_MS = NOON_MS - NOON_MS % DAY_MS
VERSIONS = range(16)
PROTECTED_BEFORE = 8


def protocol(*features):
    return Protocol(min_reader_version=1, min_writer_version=7, writer_features=features)


PROTECTED = protocol("checkpointProtection")


def table(table_protocol=PROTECTED, *, without_checksum=()):
    """A table with one commit a day, and with checkpoints at versions 5 and 10."""
    configuration = {
        "delta.logRetentionDuration": "interval 7 days",
        "delta.requireCheckpointProtectionBeforeVersion": str(PROTECTED_BEFORE),
    }
    store = new_store()
    put_raw(store, 0, [table_protocol, metadata(configuration)])
    for version in VERSIONS[1:]:
        put_raw(store, version, [add(f"f{version}")])
    for version in VERSIONS:
        if version not in without_checksum:
            write_checksum(load(store, version))
    for version in (5, 10):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    for version in VERSIONS:
        data, _ = store.files[commit_name(version)]
        store.files[commit_name(version)] = (data, MIDNIGHT_MS + version * DAY_MS + DAY_MS // 2)
    return store


def add_feature(store, version, feature):
    """Add a feature to the protocol in the checksum of a version."""
    data, modified_ms = store.files[checksum_name(version)]
    changed_data = data.replace(b'"checkpointProtection"', b'"checkpointProtection","%s"' % feature.encode())
    assert changed_data != data
    store.files[checksum_name(version)] = (changed_data, modified_ms)


def clean(store, day, **options):
    return clean_log(load(store), now_ms=MIDNIGHT_MS + day * DAY_MS + DAY_MS // 2, **options)


def oldest_version(store):
    return min(v for v in VERSIONS if commit_name(v) in store.files)


# On these days, checkpoint 5 or 10 is the oldest checkpoint that a cleanup keeps.
DAY_EXPIRED_UP_TO_5, DAY_EXPIRED_UP_TO_10 = 14, 19


def test_expired_versions_with_supported_protocols_are_deleted():
    store = table()
    clean(store, DAY_EXPIRED_UP_TO_5)
    assert oldest_version(store) == 5


@pytest.mark.parametrize("version", [0, 4, 5])
def test_no_protected_version_is_deleted_if_one_of_them_uses_an_unknown_feature(version, caplog):
    caplog.set_level("INFO")
    store = table()
    add_feature(store, version, "fromTheFuture")
    before = dict(store.files)
    assert clean(store, DAY_EXPIRED_UP_TO_5).log_files == 0
    assert store.files == before
    assert "checkpoints before version 8 are protected" in caplog.text


def test_no_protected_version_is_deleted_if_the_protocol_of_one_is_not_known():
    store = table(without_checksum=[3])
    assert clean(store, DAY_EXPIRED_UP_TO_5).log_files == 0
    assert oldest_version(store) == 0


def test_the_whole_protected_history_is_deleted_at_once_even_if_its_protocol_is_not_supported():
    store = table(without_checksum=[6])
    expired = clean(store, DAY_EXPIRED_UP_TO_10, at_most=3).log_files
    assert oldest_version(store) == 10 and expired > 3
    assert checkpoint_name(5) not in store.files


def test_supported_protected_history_is_deleted_in_parts():
    store = table()
    assert clean(store, DAY_EXPIRED_UP_TO_10, at_most=3).log_files == 3
    assert 0 < oldest_version(store) < 5


def test_a_table_that_only_has_the_property_protects_nothing():
    store = table(protocol("appendOnly"), without_checksum=VERSIONS)
    clean(store, DAY_EXPIRED_UP_TO_5)
    assert oldest_version(store) == 5


def test_the_log_stays_if_its_oldest_needed_version_has_an_unsupported_protocol(caplog):
    caplog.set_level("INFO")
    unsupported_protocol = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=("future",), writer_features=("future",)
    )
    store = new_store()
    put_raw(store, 0, [PROTECTED, metadata({"delta.logRetentionDuration": "interval 7 days"})])
    for version in VERSIONS[1:]:
        put_raw(store, version, [add(f"f{version}"), *({6: [unsupported_protocol], 9: [PROTECTED]}.get(version, []))])
    write_checkpoint(load(store, 5), now_ms=NOON_MS)
    for version in VERSIONS:
        store.files[commit_name(version)] = (store.files[commit_name(version)][0], MIDNIGHT_MS + version * DAY_MS)
    clean(store, DAY_EXPIRED_UP_TO_5)
    assert oldest_version(store) == 0
    assert "version 7 is unreadable" in caplog.text and "future" in caplog.text


def test_a_commit_is_deleted_before_its_checkpoint_and_the_checksum_last():
    names = [checkpoint_name(2), checksum_name(2), commit_name(2), commit_name(3), checkpoint_name(1), commit_name(1)]
    assert expired_names(names, 4) == [
        commit_name(1), checkpoint_name(1), commit_name(2), checkpoint_name(2), checksum_name(2), commit_name(3),
    ]  # fmt: skip


def test_the_next_cleanup_completes_a_killed_cleanup():
    cleaned_store = table()
    clean(cleaned_store, DAY_EXPIRED_UP_TO_5)
    for stop in range(1, 12):
        store = table()
        clean(store, DAY_EXPIRED_UP_TO_5, at_most=stop)
        clean(store, DAY_EXPIRED_UP_TO_5)
        assert store.files.keys() == cleaned_store.files.keys()
