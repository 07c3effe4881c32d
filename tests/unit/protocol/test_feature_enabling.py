"""A protocol has version numbers if they suffice, and otherwise feature lists. An upgrade removes no feature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.actions import Protocol
from deltalite.protocol.feature_enabling import is_satisfied, protocol_for, requested_protocol, stored_properties
from deltalite.protocol.features import supported_features
from tests.unit.builders import metadata
from tests.unit.protocol.builders import (
    MAPPED,
    NTZ,
    PLAIN,
    WRITER_4_FEATURES,
    legacy,
    metadata_with,
    protocol_with,
)

BASE = ("appendOnly", "invariants")
CHECKED = metadata({"delta.constraints.positive": "id > 0"})
TIMED = metadata({"delta.enableInCommitTimestamps": "true"})


def protocol_listing(reader_version, reader_features, *writer_features):
    """A protocol with this reader version and these lists of features."""
    return Protocol(
        min_reader_version=reader_version,
        min_writer_version=7,
        reader_features=None if reader_features is None else tuple(sorted(reader_features)),
        writer_features=tuple(sorted(writer_features)),
    )


# Each case: the current protocol, the metadata, the requested properties, and the new protocol.
UPGRADES = [
    (None, PLAIN, {}, legacy(1, 2)),
    (None, metadata({"delta.appendOnly": "true"}), {}, legacy(1, 2)),
    (legacy(1, 1), PLAIN, {}, legacy(1, 1)),
    (legacy(1, 1), metadata({"delta.appendOnly": "true"}), {}, legacy(1, 2)),
    (legacy(1, 4), PLAIN, {}, legacy(1, 4)),
    # Version numbers suffice if every feature has a legacy version.
    (None, CHECKED, {}, legacy(1, 3)),
    (None, metadata_with(delta__generationExpression="id"), {}, legacy(1, 4)),
    (None, MAPPED, {}, legacy(2, 5)),
    (legacy(1, 6), MAPPED, {}, legacy(2, 6)),
    (legacy(1, 3), metadata_with(CURRENT_DEFAULT="1"), {},
     protocol_listing(1, None, *BASE, "checkConstraints", "allowColumnDefaults")),
    (None, metadata({"delta.enableChangeDataFeed": "true"}), {}, legacy(1, 4)),
    (None, metadata({"delta.enableDeletionVectors": "true"}), {},
     protocol_listing(3, ["deletionVectors"], *BASE, "deletionVectors")),
    (protocol_listing(1, None, *BASE), CHECKED, {}, protocol_listing(1, None, *BASE, "checkConstraints")),
    (protocol_listing(1, None, *BASE), MAPPED, {}, protocol_listing(2, None, *BASE, "columnMapping")),
    (None, metadata({**MAPPED.configuration, **TIMED.configuration}), {},
     protocol_listing(2, None, *BASE, "columnMapping", "inCommitTimestamp")),
    # A feature without a legacy version: the protocol lists it and every feature that the old versions implied.
    (None, TIMED, {}, protocol_listing(1, None, *BASE, "inCommitTimestamp")),
    (legacy(1, 1), TIMED, {}, protocol_listing(1, None, "inCommitTimestamp")),
    (legacy(1, 4), TIMED, {}, protocol_listing(1, None, *WRITER_4_FEATURES, "inCommitTimestamp")),
    (legacy(1, 6), TIMED, {}, protocol_listing(1, None, *WRITER_4_FEATURES, "identityColumns", "inCommitTimestamp")),
    # The reader version stays at 2 if it implies every reader feature of the table.
    (legacy(2, 5), TIMED, {}, protocol_listing(2, None, *WRITER_4_FEATURES, "columnMapping", "inCommitTimestamp")),
    (legacy(2, 6), TIMED, {},
     protocol_listing(2, None, *WRITER_4_FEATURES, "columnMapping", "identityColumns", "inCommitTimestamp")),
    (None, NTZ, {}, protocol_listing(3, ["timestampNtz"], *BASE, "timestampNtz")),
    (legacy(1, 4), NTZ, {}, protocol_listing(3, ["timestampNtz"], *WRITER_4_FEATURES, "timestampNtz")),
    (legacy(2, 5), NTZ, {},
     protocol_listing(3, ["columnMapping", "timestampNtz"], *WRITER_4_FEATURES, "columnMapping", "timestampNtz")),
    # A protocol with feature lists keeps all listed features, including unknown features.
    (protocol_with("fromTheFuture"), TIMED, {}, protocol_listing(1, None, "fromTheFuture", "inCommitTimestamp")),
    (protocol_with("fromTheFuture"), NTZ, {}, protocol_listing(3, ["timestampNtz"], "fromTheFuture", "timestampNtz")),
    (protocol_with(), metadata({"delta.appendOnly": "true"}), {}, protocol_listing(1, None, "appendOnly")),
    (protocol_listing(3, [], "appendOnly"), TIMED, {}, protocol_listing(3, [], "appendOnly", "inCommitTimestamp")),
    # Requests by version number or by feature name.
    (None, PLAIN, {"delta.minWriterVersion": "1"}, legacy(1, 2)),
    (None, PLAIN, {"delta.minWriterVersion": "4"}, legacy(1, 4)),
    (None, PLAIN, {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, legacy(2, 5)),
    (None, PLAIN, {"delta.minWriterVersion": "7"}, protocol_listing(1, None, *BASE)),
    (None, PLAIN, {"delta.minReaderVersion": "3"}, protocol_listing(3, [], *BASE)),
    (None, PLAIN, {"delta.feature.appendOnly": "supported"}, legacy(1, 2)),
    (None, PLAIN, {"delta.feature.inCommitTimestamp": "supported"},
     protocol_listing(1, None, *BASE, "inCommitTimestamp")),
    (None, PLAIN, {"delta.feature.TIMESTAMPNTZ": "Enabled"},
     protocol_listing(3, ["timestampNtz"], *BASE, "timestampNtz")),
    (legacy(1, 4), PLAIN, {"delta.minWriterVersion": "3"}, legacy(1, 4)),
    (legacy(1, 4), PLAIN, {"delta.minWriterVersion": "7"}, protocol_listing(1, None, *WRITER_4_FEATURES)),
    (protocol_with("domainMetadata"), PLAIN, {"delta.minWriterVersion": "2"}, protocol_with("domainMetadata")),
]  # fmt: skip


@pytest.mark.parametrize(("current", "table_metadata", "properties", "expected"), UPGRADES)
def test_a_protocol_gains_the_needed_features_and_keeps_all_others(current, table_metadata, properties, expected):
    requested = requested_protocol(properties)
    new_protocol = protocol_for(table_metadata, current, requested)
    assert new_protocol == expected
    assert supported_features(new_protocol) >= supported_features(current or legacy(1, 2)) | requested.features
    assert (
        is_satisfied(new_protocol, requested) and protocol_for(table_metadata, new_protocol, requested) == new_protocol
    )


def test_a_protocol_without_a_requested_version_or_feature_does_not_satisfy_the_request():
    for properties in (
        {"delta.minWriterVersion": "3"},
        {"delta.minReaderVersion": "2"},
        {"delta.feature.inCommitTimestamp": "supported"},
    ):
        assert not is_satisfied(legacy(1, 2), requested_protocol(properties))


def test_an_upgrade_keeps_unknown_keys_of_the_protocol_action():
    current = replace(protocol_with("domainMetadata"), unknown={"fromTheFuture": 1})
    assert protocol_for(NTZ, current).unknown == {"fromTheFuture": 1}


def test_properties_that_request_protocol_features_are_not_stored():
    properties = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "7", "delta.feature.clustering": "supported"}
    assert stored_properties({**properties, "delta.appendOnly": "true", "mine": "x"}) == {
        "delta.appendOnly": "true",
        "mine": "x",
    }


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"delta.minReaderVersion": "4"}, "delta.minReaderVersion is '4'"),
        ({"delta.minWriterVersion": "seven"}, "delta.minWriterVersion is 'seven'"),
        ({"delta.minWriterVersion": "0"}, "delta.minWriterVersion is '0'"),
        ({"delta.minReaderVersion": "3", "delta.minWriterVersion": "6"}, "needs writer version 7"),
        ({"delta.feature.timeTravelToo": "supported"}, "delta.feature.timeTravelToo"),
        ({"delta.feature.appendOnly": "disabled"}, "'disabled'"),
        ({"delta.feature.clustering": "supported"}, "clustering columns"),
    ],
)
def test_the_error_names_the_key_of_an_invalid_protocol_property(properties, problem):
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        requested_protocol(properties)
    assert caught.value.remedy


def test_the_error_names_an_unwritable_feature():
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        protocol_for(PLAIN, requested=requested_protocol({"delta.feature.catalogManaged": "supported"}))


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_iceberg_compatibility_brings_column_mapping_into_the_protocol(version):
    feature, key = f"icebergCompat{version}", f"delta.enableIcebergCompat{version}"
    enabled = protocol_for(metadata({key: "true"}))
    assert enabled == protocol_listing(2, None, *BASE, "columnMapping", feature)
    assert protocol_for(PLAIN, requested=requested_protocol({f"delta.feature.{feature}": "supported"})) == enabled
    assert protocol_for(metadata({key: "false"})) == legacy(1, 2)


def test_a_table_keeps_the_preview_of_a_feature():
    widening = metadata({"delta.enableTypeWidening": "true"})
    assert supported_features(protocol_for(widening)) >= {"typeWidening"}
    preview = protocol_with(readers=["typeWidening-preview"])
    assert protocol_for(widening, preview) == preview
    shredding = replace(metadata_with("variant"), configuration={"delta.enableVariantShredding": "true"})
    assert supported_features(protocol_for(shredding)) >= {"variantShredding", "variantType"}
    previews = protocol_with(readers=["variantShredding-preview", "variantType-preview"])
    assert protocol_for(shredding, previews) == previews
