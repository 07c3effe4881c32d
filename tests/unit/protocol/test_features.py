"""The protocol check: tables that are read, written or rejected, and the name of the feature in each error."""

from __future__ import annotations

import pytest

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.actions import Protocol
from deltalite.protocol.features import (
    check_readable,
    check_writable,
    is_in_force,
    supported_features,
)
from tests.unit.builders import metadata
from tests.unit.protocol.builders import MAPPED, NTZ, PLAIN, WRITER_4_FEATURES, legacy, with_features, with_field

# The protocol and the metadata of a table, and the texts in the errors of a reader and of a writer. None: no error.
CASES = [
    (legacy(1, 1), PLAIN, None, None),
    (legacy(1, 2), PLAIN, None, None),
    (legacy(1, 2), metadata({"delta.appendOnly": "true"}), None, None),
    (legacy(1, 2), with_field(delta__invariants="{}"), None, None),
    (legacy(1, 3), PLAIN, None, None),
    (legacy(1, 3), metadata({"delta.constraints.c": "id > 0"}), None, None),
    (legacy(1, 2), metadata({"delta.constraints.c": "id > 0"}), None, None),
    (legacy(1, 4), PLAIN, None, None),
    (legacy(1, 4), metadata({"delta.enableChangeDataFeed": "true"}), None, None),
    (legacy(1, 4), with_field(delta__generationExpression="id"), None, None),
    (legacy(2, 5), PLAIN, None, None),
    (legacy(2, 5), MAPPED, None, None),
    (legacy(1, 2), MAPPED, None, None),
    (legacy(1, 6), with_field(delta__identity__start=1), None, None),
    (legacy(4, 7), PLAIN, "reader version 4", "reader version 4"),
    (legacy(0, 2), PLAIN, "reader version 0", "reader version 0"),
    (legacy(1, 8), PLAIN, None, "writer version 8"),
    (with_features(), metadata({"delta.appendOnly": "true"}), None, None),
    (with_features("appendOnly"), metadata({"delta.appendOnly": "true"}), None, None),
    (with_features("invariants"), PLAIN, None, None),
    (with_features("allowColumnDefaults"), with_field(CURRENT_DEFAULT="1"), None, None),
    (with_features("timestampNtz", readers=["timestampNtz"]), NTZ, None, None),
    (with_features(readers=["vacuumProtocolCheck"]), PLAIN, None, None),
    (with_features("domainMetadata"), PLAIN, None, None),
    (with_features("domainMetadata", "clustering"), PLAIN, None, None),
    (with_features("domainMetadata", "rowTracking"), PLAIN, None, None),
    (with_features("inCommitTimestamp"), PLAIN, None, None),
    (with_features("inCommitTimestamp"), metadata({"delta.enableInCommitTimestamps": "true"}), None, None),
    (with_features("inCommitTimestamp-preview"), PLAIN, None, "inCommitTimestamp-preview"),
    (with_features("icebergCompatV1"), metadata({"delta.enableIcebergCompatV1": "true"}), None, None),
    (with_features("icebergCompatV3"), PLAIN, None, "icebergCompatV3"),
    (with_features("materializePartitionColumns"), PLAIN, None, None),
    (with_features(readers=["deletionVectors"]), PLAIN, None, None),
    (with_features(readers=["v2Checkpoint"]), PLAIN, None, None),
    (with_features(readers=["typeWidening"]), PLAIN, None, None),
    (with_features(readers=["typeWidening-preview"]), PLAIN, None, None),
    (with_features(readers=["variantType"]), PLAIN, None, None),
    (with_features(readers=["variantType"]), with_field("variant"), None, None),
    (with_features(readers=["variantShredding-preview"]), PLAIN, None, None),
    (with_features(readers=["variantShredding-preview"]), with_field("variant"), None, None),
    (with_features(readers=["catalogManaged"]), PLAIN, "catalogManaged (a catalog decides", "catalogManaged"),
    (
        with_features(readers=["catalogOwned-preview"]),
        PLAIN,
        "catalogOwned-preview (a catalog decides",
        "catalogOwned-preview",
    ),
    (legacy(1, 2), with_field("void"), None, "columns of type void"),
    (legacy(1, 2), with_field({"type": "udt", "sqlType": "long"}), None, "columns of a user-defined type"),
    (with_features(readers=["columnMapping"]), PLAIN, None, None),
    (with_features(readers=["columnMapping"]), MAPPED, None, None),
    # Spark 3.5 listed a reader feature only in `writerFeatures`: the golden table dat/iceberg_compat_v1.
    (
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=("columnMapping",)),
        MAPPED,
        None,
        None,
    ),
    (with_features("deletionVectors"), PLAIN, None, None),
    (with_features("fromTheFuture"), PLAIN, None, "fromTheFuture"),
    (with_features(readers=["zz", "aa"]), PLAIN, "aa, zz", "aa, zz"),
]


@pytest.mark.parametrize(("protocol", "table_metadata", "reader_error", "writer_error"), CASES)
def test_a_table_is_readable_and_writable_or_the_error_names_the_feature(
    protocol, table_metadata, reader_error, writer_error
):
    for check, error_text in ((check_readable, reader_error), (check_writable, writer_error)):
        if error_text is None:
            check(protocol, table_metadata)
        else:
            with pytest.raises(UnsupportedFeatureError) as caught:
                check(protocol, table_metadata)
            assert error_text in caught.value.problem and caught.value.remedy


@pytest.mark.parametrize(
    ("protocol", "supported"),
    [
        (legacy(1, 1), set()),
        (legacy(1, 2), {"appendOnly", "invariants"}),
        (legacy(1, 3), {"appendOnly", "invariants", "checkConstraints"}),
        (legacy(1, 4), set(WRITER_4_FEATURES)),
        (legacy(2, 5), {*WRITER_4_FEATURES, "columnMapping"}),
        (legacy(2, 6), {*WRITER_4_FEATURES, "columnMapping", "identityColumns"}),
        (with_features(), set()),
        (with_features("appendOnly", readers=["timestampNtz"]), {"appendOnly", "timestampNtz"}),
        (Protocol(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",)), {"columnMapping"}),
    ],
)
def test_a_protocol_supports_its_listed_features_or_those_of_its_versions(protocol, supported):
    assert supported_features(protocol) == supported


@pytest.mark.parametrize(
    ("protocol", "table_metadata", "in_force"),
    [
        (legacy(1, 2), metadata({"delta.appendOnly": "true"}), True),
        (legacy(1, 2), metadata({"delta.appendOnly": "false"}), False),
        (legacy(1, 1), metadata({"delta.appendOnly": "true"}), False),
        (with_features(), metadata({"delta.appendOnly": "true"}), False),
        (with_features("appendOnly"), metadata({"delta.appendOnly": "TRUE"}), True),
    ],
)
def test_a_property_takes_effect_only_if_its_feature_is_supported(protocol, table_metadata, in_force):
    assert is_in_force("appendOnly", protocol, table_metadata) is in_force
