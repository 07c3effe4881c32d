"""The version checksums of all engines are parsed, and a malformed one is ignored."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.log.version_checksum import parse_version_checksum
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore

BODY = {
    "txnId": "7",
    "tableSizeBytes": 475,
    "numFiles": 1,
    "numMetadata": 1,
    "numProtocol": 1,
    "inCommitTimestampOpt": 1_739_859_743_394,
    "setTransactions": [{"appId": "a", "version": 3}],
    "domainMetadata": [{"domain": "delta.clustering", "configuration": "{}", "removed": False}],
    "metadata": {"id": "t", "schemaString": "{}", "partitionColumns": [], "configuration": {"k": "v"}},
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    "allFiles": "is not read",
}


def parse_with(**changes):
    """Parse the body with changes. The value `...` removes a key."""
    body = {key: value for key, value in (BODY | changes).items() if value is not ...}
    return parse_version_checksum(json.dumps(body).encode(), "0.crc")


def test_a_checksum_has_the_facts_of_the_table():
    checksum = parse_with()
    assert (checksum.protocol.min_writer_version, checksum.metadata.configuration) == (2, {"k": "v"})
    assert (checksum.num_files, checksum.table_size_bytes) == (1, 475)


@pytest.mark.parametrize("absent", [..., None])
def test_optional_fields_may_be_absent(absent):
    assert parse_with(inCommitTimestampOpt=absent, setTransactions=absent, domainMetadata=absent) == parse_with()
    assert replace(parse_with(), txn_id=None) == parse_with(txnId=absent)


@pytest.mark.parametrize("key", ["tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "metadata", "protocol"])
@pytest.mark.parametrize("value", [..., None, "1", -1, True, 1.0, [], {}])
def test_a_checksum_without_a_required_field_is_invalid(key, value):
    assert parse_with(**{key: value}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"numProtocol": 2},
        {"numMetadata": 0},
        {"protocol": {"minReaderVersion": "abc", "minWriterVersion": 2}},
        {"metadata": {"id": "t"}},
    ],
)
def test_a_checksum_with_an_invalid_field_is_invalid(change):
    assert parse_with() is not None
    assert parse_with(**change) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        json.dumps(BODY).encode() * 2,
    ],
)
def test_a_file_that_is_not_one_json_object_is_an_invalid_checksum(data):
    assert parse_version_checksum(data, "0.crc") is None


def test_checksums_of_other_engines_agree_with_replay(golden):
    count = 0
    for file in sorted((golden / "tables").rglob("_delta_log/*.crc")):
        table = file.parent.parent
        checksum = None if file.name.startswith(".") else parse_version_checksum(file.read_bytes(), file.name)
        if checksum is None or table.name == "crc-full":  # this checksum describes files that do not exist
            continue
        snapshot = Snapshot.load(LocalLogStore(str(table)), int(file.stem))
        assert (checksum.protocol, checksum.metadata) == (snapshot.protocol, snapshot.metadata), file
        count += 1
    assert count > 80


@pytest.mark.parametrize("kind", ["invalid_json", "invalid_json_mapping", "trailing_json_content", "without_protocol"])
def test_a_damaged_checksum_of_another_engine_is_ignored(golden, kind):
    file = golden / "tables" / "trino" / "deltalake" / f"checksum_{kind}" / "_delta_log" / f"{1:020}.crc"
    assert parse_version_checksum(file.read_bytes(), file.name) is None
