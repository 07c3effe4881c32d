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
from tests.unit.protocol.builders import (
    MAPPED,
    NTZ,
    PLAIN,
    WRITER_4_FEATURES,
    legacy,
    metadata_with,
    protocol_with,
)

# The protocol and the metadata of a table, and the texts in the errors of a reader and of a writer. None: no error.
CASES = [
    (legacy(1, 1), PLAIN, None, None),
    (legacy(1, 2), PLAIN, None, None),
    (legacy(1, 2), metadata({"delta.appendOnly": "true"}), None, None),
    (legacy(1, 2), metadata_with(delta__invariants="{}"), None, None),
    (legacy(1, 3), PLAIN, None, None),
    (legacy(1, 3), metadata({"delta.constraints.c": "id > 0"}), None, None),
    (legacy(1, 2), metadata({"delta.constraints.c": "id > 0"}), None, None),
    (legacy(1, 4), PLAIN, None, None),
    (legacy(1, 4), metadata({"delta.enableChangeDataFeed": "true"}), None, None),
    (legacy(1, 4), metadata_with(delta__generationExpression="id"), None, None),
    (legacy(2, 5), PLAIN, None, None),
    (legacy(2, 5), MAPPED, None, None),
    (legacy(1, 2), MAPPED, None, None),
    (legacy(1, 6), metadata_with(delta__identity__start=1), None, None),
    (legacy(4, 7), PLAIN, "reader version 4", "reader version 4"),
    (legacy(0, 2), PLAIN, "reader version 0", "reader version 0"),
    (legacy(1, 8), PLAIN, None, "writer version 8"),
    (protocol_with(), metadata({"delta.appendOnly": "true"}), None, None),
    (protocol_with("appendOnly"), metadata({"delta.appendOnly": "true"}), None, None),
    (protocol_with("invariants"), PLAIN, None, None),
    (protocol_with("allowColumnDefaults"), metadata_with(CURRENT_DEFAULT="1"), None, None),
    (protocol_with("timestampNtz", readers=["timestampNtz"]), NTZ, None, None),
    (protocol_with(readers=["vacuumProtocolCheck"]), PLAIN, None, None),
    (protocol_with("domainMetadata"), PLAIN, None, None),
    (protocol_with("domainMetadata", "clustering"), PLAIN, None, None),
    (protocol_with("domainMetadata", "rowTracking"), PLAIN, None, None),
    (protocol_with("inCommitTimestamp"), PLAIN, None, None),
    (protocol_with("inCommitTimestamp"), metadata({"delta.enableInCommitTimestamps": "true"}), None, None),
    (protocol_with("inCommitTimestamp-preview"), PLAIN, None, "inCommitTimestamp-preview"),
    (protocol_with("icebergCompatV1"), metadata({"delta.enableIcebergCompatV1": "true"}), None, None),
    (protocol_with("icebergCompatV3"), PLAIN, None, "icebergCompatV3"),
    (protocol_with("materializePartitionColumns"), PLAIN, None, None),
    (protocol_with(readers=["deletionVectors"]), PLAIN, None, None),
    (protocol_with(readers=["v2Checkpoint"]), PLAIN, None, None),
    (protocol_with(readers=["typeWidening"]), PLAIN, None, None),
    (protocol_with(readers=["typeWidening-preview"]), PLAIN, None, None),
    (protocol_with(readers=["variantType"]), PLAIN, None, None),
    (protocol_with(readers=["variantType"]), metadata_with("variant"), None, None),
    (protocol_with(readers=["variantShredding-preview"]), PLAIN, None, None),
    (protocol_with(readers=["variantShredding-preview"]), metadata_with("variant"), None, None),
    (protocol_with(readers=["catalogManaged"]), PLAIN, "catalogManaged (a catalog decides", "catalogManaged"),
    (
        protocol_with(readers=["catalogOwned-preview"]),
        PLAIN,
        "catalogOwned-preview (a catalog decides",
        "catalogOwned-preview",
    ),
    (legacy(1, 2), metadata_with("void"), None, "columns of type void"),
    (legacy(1, 2), metadata_with({"type": "udt", "sqlType": "long"}), None, "columns of a user-defined type"),
    (protocol_with(readers=["columnMapping"]), PLAIN, None, None),
    (protocol_with(readers=["columnMapping"]), MAPPED, None, None),
    # Spark 3.5 listed a reader feature only in `writerFeatures`: the golden table dat/iceberg_compat_v1.
    (
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=("columnMapping",)),
        MAPPED,
        None,
        None,
    ),
    (protocol_with("deletionVectors"), PLAIN, None, None),
    (protocol_with("fromTheFuture"), PLAIN, None, "fromTheFuture"),
    (protocol_with(readers=["zz", "aa"]), PLAIN, "aa, zz", "aa, zz"),
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
        (protocol_with(), set()),
        (protocol_with("appendOnly", readers=["timestampNtz"]), {"appendOnly", "timestampNtz"}),
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
        (protocol_with(), metadata({"delta.appendOnly": "true"}), False),
        (protocol_with("appendOnly"), metadata({"delta.appendOnly": "TRUE"}), True),
    ],
)
def test_a_property_takes_effect_only_if_its_feature_is_supported(protocol, table_metadata, in_force):
    assert is_in_force("appendOnly", protocol, table_metadata) is in_force
