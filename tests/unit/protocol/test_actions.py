"""Actions keep unknown fields and reject values that the protocol forbids. The error names the file and the line."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    commit_to_bytes,
    iter_raw_actions,
    parse_action,
)
from tests.support.commits import parse_commit

# A complete body of each kind of action. Some nested objects have unknown keys.
BODIES = {
    "protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz", "appendOnly"],
    },
    "metaData": {
        "id": "i", "name": "n", "description": "d", "format": {"provider": "parquet", "options": {"o": "1"}, "v": 2},
        "schemaString": "{}", "partitionColumns": ["p"], "createdTime": 5, "configuration": {"k": "v"},
    },
    "add": {
        "path": "a", "partitionValues": {"p": None}, "size": 1, "modificationTime": 2, "dataChange": True,
        "stats": "{}", "tags": {"t": None}, "deletionVector": {"storageType": "u", "x": 1}, "baseRowId": 3,
        "defaultRowCommitVersion": 4, "clusteringProvider": "liquid",
    },
    "remove": {
        "path": "a", "deletionTimestamp": 9, "dataChange": False, "extendedFileMetadata": True,
        "partitionValues": {"p": "1"}, "size": 1, "stats": "{}", "tags": {}, "deletionVector": {"storageType": "i"},
        "baseRowId": 3, "defaultRowCommitVersion": 4,
    },
    "cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 1, "dataChange": False, "tags": {"a": "b"}},
    "txn": {"appId": "dag", "version": 1, "lastUpdated": 2},
    "domainMetadata": {"domain": "delta.clustering", "configuration": "[]", "removed": False},
}  # fmt: skip
CLASSES = {
    "protocol": Protocol, "metaData": Metadata, "add": AddFile, "remove": RemoveFile, "cdc": AddCDCFile,
    "txn": SetTransaction, "domainMetadata": DomainMetadata,
}  # fmt: skip
REQUIRED = {
    "protocol": ["minReaderVersion", "minWriterVersion"],
    "metaData": ["id", "schemaString", "partitionColumns"],
    "add": ["path", "partitionValues", "size", "modificationTime", "dataChange"],
    "remove": ["path", "dataChange"],
    "cdc": ["path", "partitionValues", "size", "dataChange"],
    "txn": ["appId", "version"],
    "domainMetadata": ["domain", "configuration", "removed"],
}


def line(kind, body):
    return json.dumps({kind: body}).encode()


@pytest.mark.parametrize("kind", BODIES)
def test_known_and_unknown_keys_of_an_action_survive_a_round_trip(kind):
    body = BODIES[kind] | {"fromTheFuture": {"deep": [1, None, {"x": "y"}]}}
    (action,) = parse_commit(line(kind, body), "x.json")
    assert isinstance(action, CLASSES[kind])
    assert json.loads(commit_to_bytes([action])) == {kind: body}


def test_provenance_has_any_keys_and_keeps_them():
    body = {"timestamp": 1, "operationMetrics": {"a": "1"}, "nobodyKnows": [None]}
    (action,) = parse_commit(line("commitInfo", body), "x.json")
    assert action == CommitInfo(values=body)
    assert json.loads(commit_to_bytes([action])) == {"commitInfo": body}


def test_a_commit_has_one_compact_line_for_each_action_in_order():
    actions = [SetTransaction(app_id="a\nb", version=1), DomainMetadata(domain="d", configuration="ü", removed=True)]
    data = commit_to_bytes(actions)
    assert data.count(b"\n") == 2 and data.endswith(b"\n") and b'": ' not in data
    assert parse_commit(data, "x") == actions


def test_unknown_actions_empty_lines_and_null_actions_are_ignored():
    data = b'{"sidecar": {"path": 5}}\r\n\n{"add": null, "txn": {"appId": "a", "version": 1}}\n   \n{"novelty": {}}'
    assert [a.action for a in parse_commit(data, "x")] == ["txn"]
    assert [kind for kind, _ in iter_raw_actions(data, "x")] == ["sidecar", "txn", "novelty"]
    assert parse_action("novelty", {}, "x") is None


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [("protocol", "minReaderVersion", 2**31), ("protocol", "minWriterVersion", -(2**31)), ("txn", "version", 2**63),
     ("add", "size", 2**63), ("remove", "deletionTimestamp", 2**70)],
)  # fmt: skip
def test_an_integer_out_of_the_range_of_its_type_is_rejected(kind, key, value):
    with pytest.raises(CorruptLogError, match=f"x.json contains an invalid {kind} action: `{key}` is .* out of range"):
        parse_commit(line(kind, BODIES[kind] | {key: value}), "x.json")


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in REQUIRED.items() for key in keys])
@pytest.mark.parametrize("fault", ["missing", "null", "wrong"])
def test_the_error_names_the_file_and_a_missing_or_mistyped_key(kind, key, fault):
    body = dict(BODIES[kind])
    if fault == "missing":
        del body[key]
    else:
        body[key] = None if fault == "null" else 1.5
    with pytest.raises(CorruptLogError) as caught:
        parse_commit(line(kind, body), "_delta_log/00000000000000000007.json")
    for part in ("00000000000000000007.json", kind, f"`{key}`"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("protocol", {"minReaderVersion": True}),
        ("protocol", {"minReaderVersion": "1"}),
        ("protocol", {"readerFeatures": "timestampNtz"}),
        ("protocol", {"writerFeatures": [1]}),
        ("metaData", {"partitionColumns": {"p": 1}}),
        ("metaData", {"partitionColumns": [None]}),
        ("metaData", {"configuration": {"delta.appendOnly": True}}),
        ("add", {"dataChange": 1}),
        ("add", {"partitionValues": ["p"]}),
        ("add", {"partitionValues": {"p": 1}}),
        ("add", {"stats": {"numRecords": 1}}),
        ("add", {"deletionVector": "u"}),
        ("txn", {"version": False}),
        ("domainMetadata", {"removed": "no"}),
    ],
)
def test_a_value_of_another_type_is_rejected(kind, change):
    [key] = change
    with pytest.raises(CorruptLogError, match=f"f.json contains an invalid {kind} action: `{key}` is .* wrong type"):
        parse_commit(line(kind, BODIES[kind] | change), "f.json")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"add": {"path"', "Line 1 of f.json is not JSON"),
        (b'{"txn": {"appId": "a", "version": 1}}\n{"add"', "Line 2 of f.json is not JSON"),
        (b"[1]", "Line 1 of f.json is not a JSON object"),
        (b'"add"', "Line 1 of f.json is not a JSON object"),
        (b'{"add": 5}', "The add in line 1 of f.json is not an object"),
        (b'{"commitInfo": "x"}', "The commitInfo in line 1 of f.json is not an object"),
        (b'{"checkpointMetadata": []}', "The checkpointMetadata in line 1 of f.json is not an object"),
        (b"\xff\xfe\xff", "Line 1 of f.json is not JSON"),
        (b"[" * 100_000, "Line 1 of f.json is not JSON"),
        (b'{"txn": {"appId": "a", "version": 1}}x', "Line 1 of f.json is not JSON"),
    ],
    ids=["cut", "second line", "array", "text", "number", "provenance", "of a checkpoint", "bytes", "deep", "trailing"],
)
def test_the_error_names_the_file_and_the_number_of_an_invalid_line(data, problem):
    with pytest.raises(CorruptLogError, match=problem):
        parse_commit(data, "f.json")


@pytest.mark.parametrize("value", ["5", '"x"', "[]", '[{"path": "a"}]', "true", "null", "{}"])
def test_an_unknown_action_is_ignored_with_any_value(value):
    data = b'{"some": %s}\n{"txn": {"appId": "a", "version": 1}, "more": %s}' % ((value.encode(),) * 2)
    assert parse_commit(data, "f.json") == [SetTransaction(app_id="a", version=1)]
