"""The protocol, metadata and domains after a restore: most values are the older ones, and some never decrease."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.actions import DomainMetadata, Protocol
from deltalite.protocol.clustering import CLUSTERING_DOMAIN, clustering_columns
from deltalite.protocol.features import supported_features
from deltalite.protocol.restoring import Rules, restored_rules
from deltalite.protocol.schema import PrimitiveType, StructField, StructType, parse_schema
from tests.unit.builders import PROTOCOL, commit_actions, load, metadata, new_store, struct

ENABLEMENT_KEYS = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
TIMED_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp",))
CLUSTERED_PROTOCOL = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("clustering", "domainMetadata")
)


def rules(protocol=PROTOCOL, domains=(), **changes):
    configuration, schema = changes.pop("configuration", None), changes.pop("schema", struct(id="long"))
    return Rules(
        protocol=protocol, metadata=metadata(configuration, schema, **changes), domains={d.domain: d for d in domains}
    )


def rules_with_timestamps(version=None):
    enablement = {} if version is None else {ENABLEMENT_KEYS[0]: str(version), ENABLEMENT_KEYS[1]: str(version * 1000)}
    return rules(TIMED_PROTOCOL, configuration={"delta.enableInCommitTimestamps": "true", **enablement})


def clustered_by(*columns):
    text = json.dumps({"clusteringColumns": [list(column) for column in columns]})
    return rules(CLUSTERED_PROTOCOL, [DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=text, removed=False)])


def rules_with_identity(name="n", mark=None, step=1, **more_metadata):
    field_metadata = {
        "delta.identity.start": 1,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": False,
        **more_metadata,
    }
    if mark is not None:
        field_metadata["delta.identity.highWaterMark"] = mark
    return rules(
        Protocol(min_reader_version=1, min_writer_version=6),
        schema=StructType(
            (
                StructField("id", PrimitiveType("long")),
                StructField(name, PrimitiveType("long"), metadata=field_metadata),
            )
        ),
    )


def high_water_mark_of(restored):
    return parse_schema(restored.metadata.schema_string).fields[1].metadata.get("delta.identity.highWaterMark")


def test_schema_partitioning_and_properties_return_to_the_older_version_and_the_table_id_stays():
    current = rules(configuration={"new": "1"}, id="current", partition_columns=("id",), description="new")
    target = rules(configuration={"old": "1"}, id="target", schema=struct(a="string"), description="old", name="n")
    restored = restored_rules(current, target).metadata
    assert restored == metadata({"old": "1"}, struct(a="string"), id="current", description="old", name="n")


@pytest.mark.parametrize(
    ("current", "target"),
    [
        ((1, 2, None, None), (1, 4, None, None)),
        ((1, 4, None, None), (1, 2, None, None)),
        ((3, 7, ("deletionVectors",), ("deletionVectors",)), (1, 2, None, None)),
        ((1, 2, None, None), (3, 7, ("deletionVectors",), ("deletionVectors", "checkConstraints"))),
        ((1, 7, None, ("appendOnly",)), (3, 7, ("timestampNtz",), ("timestampNtz",))),
        ((2, 5, None, None), (3, 7, ("v2Checkpoint",), ("v2Checkpoint",))),
    ],
)
def test_the_protocol_keeps_its_features_and_gains_those_of_the_older_version(current, target):
    protocols = [Protocol(min_reader_version=r, min_writer_version=w, reader_features=a, writer_features=b)
            for r, w, a, b in (current, target)]  # fmt: skip
    restored_protocol = restored_rules(rules(protocols[0]), rules(protocols[1])).protocol
    for protocol in protocols:
        assert supported_features(protocol) <= supported_features(restored_protocol)
        assert restored_protocol.min_reader_version >= protocol.min_reader_version
        assert restored_protocol.min_writer_version >= protocol.min_writer_version
    assert (restored_protocol == protocols[0]) is (supported_features(protocols[1]) <= supported_features(protocols[0]))


@pytest.mark.parametrize("is_older", [False, True])
def test_an_unwritable_feature_of_either_version_is_rejected(is_older):
    unknown = rules(Protocol(min_reader_version=1, min_writer_version=7, writer_features=("quantum",)))
    with pytest.raises(UnsupportedFeatureError, match="quantum"):
        restored_rules(*((rules(), unknown) if is_older else (unknown, rules())))


@pytest.mark.parametrize(("step", "current", "target", "expected"), [
    (1, 9, 4, 9), (1, 4, 9, 9), (-1, -9, -4, -9), (1, None, 4, 4), (1, 9, None, 9), (1, None, None, None),
])  # fmt: skip
def test_an_identity_column_generates_no_value_twice(step, current, target, expected):
    current_rules, target_rules = (rules_with_identity(mark=mark, step=step) for mark in (current, target))
    assert high_water_mark_of(restored_rules(current_rules, target_rules)) == expected


def test_an_identity_column_is_identified_by_its_physical_name():
    mapped = {"delta.columnMapping.physicalName": "p", "delta.columnMapping.id": 2}
    renamed, older = rules_with_identity("renamed", 9, **mapped), rules_with_identity("n", 4, **mapped)
    assert high_water_mark_of(restored_rules(renamed, older)) == 9
    assert high_water_mark_of(restored_rules(rules_with_identity("other", 9), rules_with_identity("n", 4))) == 4


@pytest.mark.parametrize(
    ("current", "target", "expected"), [("7", "3", "7"), ("3", "7", "7"), ("7", None, "7"), (None, None, None)]
)
def test_the_highest_id_of_a_column_is_never_lowered(current, target, expected):
    key = "delta.columnMapping.maxColumnId"
    rules_after = restored_rules(*(rules(configuration={} if n is None else {key: n}) for n in (current, target)))
    assert rules_after.metadata.configuration.get(key) == expected


@pytest.mark.parametrize(("current", "target", "expected"), [(9, 1, "9"), (9, None, "9"), (None, 1, None)])
def test_the_enablement_of_in_commit_timestamps_is_the_start_of_the_unbroken_series(current, target, expected):
    values = restored_rules(rules_with_timestamps(current), rules_with_timestamps(target)).metadata.configuration
    assert (values.get(ENABLEMENT_KEYS[0]), values.get(ENABLEMENT_KEYS[1])) == (
        expected,
        None if expected is None else f"{expected}000",
    )


def test_a_restore_that_enables_in_commit_timestamps_again_records_the_enablement():
    store = new_store()
    commit_actions(store, TIMED_PROTOCOL, rules_with_timestamps().metadata, read_version=-1)
    commit_actions(store, metadata({"delta.enableInCommitTimestamps": "false"}, struct(id="long")))
    base, older = load(store), load(store, 0)
    current, target = (Rules(protocol=s.protocol, metadata=s.metadata, domains=s.domains) for s in (base, older))
    restored = restored_rules(current, target)
    version = commit_actions(store, restored.metadata, base=(base.protocol, base.metadata))
    assert load(store).configuration[ENABLEMENT_KEYS[0]] == str(version) == "2"


def test_clustering_returns_to_the_older_version():
    assert restored_rules(clustered_by(("id",)), clustered_by(("id",))).domains == ()
    (domain,) = restored_rules(clustered_by(("id",)), clustered_by(("a", "b"))).domains
    assert clustering_columns({domain.domain: domain}) == (("a", "b"),)
    (domain,) = restored_rules(clustered_by(("id",)), rules(PROTOCOL)).domains
    assert (clustering_columns({domain.domain: domain}), domain.removed) == ((), False)
    (domain,) = restored_rules(rules(CLUSTERED_PROTOCOL), clustered_by(("id",))).domains
    assert clustering_columns({domain.domain: domain}) == (("id",),)


def test_a_restore_replaces_malformed_clustering():
    malformed = rules(
        CLUSTERED_PROTOCOL, [DomainMetadata(domain="delta.clustering", configuration="garbage", removed=False)]
    )
    for older, columns in ((clustered_by(("id",)), (("id",),)), (rules(PROTOCOL), ())):
        (domain,) = restored_rules(malformed, older).domains
        assert clustering_columns({domain.domain: domain}) == columns
    with pytest.raises(CorruptLogError):
        restored_rules(clustered_by(("id",)), malformed)


def test_domains_of_other_engines_stay_unchanged():
    foreign_domain = DomainMetadata(domain="mine", configuration="1", removed=False)
    assert restored_rules(rules(CLUSTERED_PROTOCOL, [foreign_domain]), rules(CLUSTERED_PROTOCOL)).domains == ()
    assert restored_rules(rules(CLUSTERED_PROTOCOL), rules(CLUSTERED_PROTOCOL, [foreign_domain])).domains == ()


@pytest.mark.parametrize(("current", "target", "restored"), [("7", "3", "7"), ("7", None, "7"), ("2", "3", "3")])
def test_the_version_of_the_checkpoint_protection_never_decreases(current, target, restored):
    key = "delta.requireCheckpointProtectionBeforeVersion"
    protected = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("checkpointProtection",))
    older = rules(protected, configuration={} if target is None else {key: target})
    newer = rules(protected, configuration={key: current})
    assert restored_rules(newer, older).metadata.configuration[key] == restored
