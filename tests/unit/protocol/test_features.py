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
from deltalite.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from tests.unit.builders import SCHEMA, metadata

LEGACY_7 = ("appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants")


def legacy(reader, writer):
    return Protocol(min_reader_version=reader, min_writer_version=writer)


def named(*writers, readers=()):
    version = 3 if readers else 1
    both = tuple(dict.fromkeys((*readers, *writers)))
    return Protocol(
        min_reader_version=version,
        min_writer_version=7,
        reader_features=tuple(readers) if readers else None,
        writer_features=both,
    )


def with_field(kind="long", **field_metadata):
    field = StructField("c", PrimitiveType(kind), metadata={k.replace("__", "."): v for k, v in field_metadata.items()})
    return metadata(schema=StructType((*SCHEMA.fields, field)))


PLAIN = metadata()
NTZ = metadata(schema=StructType((StructField("c", ArrayType(PrimitiveType("timestamp_ntz"))),)))
MAPPED = metadata({"delta.columnMapping.mode": "name"})

# protocol, metadata, what a reader is refused for, what a writer is refused for
TABLE = [
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
    (named(), metadata({"delta.appendOnly": "true"}), None, None),
    (named("appendOnly"), metadata({"delta.appendOnly": "true"}), None, None),
    (named("invariants"), PLAIN, None, None),
    (named("allowColumnDefaults"), with_field(CURRENT_DEFAULT="1"), None, None),
    (named("timestampNtz", readers=["timestampNtz"]), NTZ, None, None),
    (named(readers=["vacuumProtocolCheck"]), PLAIN, None, None),
    (named("domainMetadata"), PLAIN, None, None),
    (named("domainMetadata", "clustering"), PLAIN, None, None),
    (named("domainMetadata", "rowTracking"), PLAIN, None, None),
    (named("inCommitTimestamp"), PLAIN, None, None),
    (named("inCommitTimestamp"), metadata({"delta.enableInCommitTimestamps": "true"}), None, None),
    (named("inCommitTimestamp-preview"), PLAIN, None, "inCommitTimestamp-preview"),
    (named("icebergCompatV1"), metadata({"delta.enableIcebergCompatV1": "true"}), None, None),
    (named("icebergCompatV3"), PLAIN, None, "icebergCompatV3"),
    (named("materializePartitionColumns"), PLAIN, None, None),
    (named(readers=["deletionVectors"]), PLAIN, None, None),
    (named(readers=["v2Checkpoint"]), PLAIN, None, None),
    (named(readers=["typeWidening"]), PLAIN, None, None),
    (named(readers=["typeWidening-preview"]), PLAIN, None, None),
    (named(readers=["variantType"]), PLAIN, None, None),
    (named(readers=["variantType"]), with_field("variant"), None, None),
    (named(readers=["variantShredding-preview"]), PLAIN, None, None),
    (named(readers=["variantShredding-preview"]), with_field("variant"), None, None),
    (named(readers=["catalogManaged"]), PLAIN, "catalogManaged (a catalog decides", "catalogManaged"),
    (named(readers=["catalogOwned-preview"]), PLAIN, "catalogOwned-preview (a catalog decides", "catalogOwned-preview"),
    (legacy(1, 2), with_field("void"), None, "columns of type void"),
    (legacy(1, 2), with_field({"type": "udt", "sqlType": "long"}), None, "columns of a user-defined type"),
    (named(readers=["columnMapping"]), PLAIN, None, None),
    (named(readers=["columnMapping"]), MAPPED, None, None),
    # As Spark 3.5 wrote dat/iceberg_compat_v1: a reader's feature that stands in the writer's list alone.
    (
        Protocol(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=("columnMapping",)),
        MAPPED,
        None,
        None,
    ),
    (named("deletionVectors"), PLAIN, None, None),
    (named("fromTheFuture"), PLAIN, None, "fromTheFuture"),
    (named(readers=["zz", "aa"]), PLAIN, "aa, zz", "aa, zz"),
]


@pytest.mark.parametrize(("protocol", "table", "reading", "writing"), TABLE)
def test_a_table_is_readable_and_writable_or_the_error_names_the_feature(protocol, table, reading, writing):
    for check, refused in ((check_readable, reading), (check_writable, writing)):
        if refused is None:
            check(protocol, table)
        else:
            with pytest.raises(UnsupportedFeatureError) as caught:
                check(protocol, table)
            assert refused in caught.value.problem and caught.value.remedy


@pytest.mark.parametrize(
    ("protocol", "supported"),
    [
        (legacy(1, 1), set()),
        (legacy(1, 2), {"appendOnly", "invariants"}),
        (legacy(1, 3), {"appendOnly", "invariants", "checkConstraints"}),
        (legacy(1, 4), set(LEGACY_7)),
        (legacy(2, 5), {*LEGACY_7, "columnMapping"}),
        (legacy(2, 6), {*LEGACY_7, "columnMapping", "identityColumns"}),
        (named(), set()),
        (named("appendOnly", readers=["timestampNtz"]), {"appendOnly", "timestampNtz"}),
        (Protocol(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",)), {"columnMapping"}),
    ],
)
def test_a_protocol_supports_its_listed_features_or_those_of_its_versions(protocol, supported):
    assert supported_features(protocol) == supported


@pytest.mark.parametrize(
    ("protocol", "table", "in_force"),
    [
        (legacy(1, 2), metadata({"delta.appendOnly": "true"}), True),
        (legacy(1, 2), metadata({"delta.appendOnly": "false"}), False),
        (legacy(1, 1), metadata({"delta.appendOnly": "true"}), False),
        (named(), metadata({"delta.appendOnly": "true"}), False),
        (named("appendOnly"), metadata({"delta.appendOnly": "TRUE"}), True),
    ],
)
def test_a_property_takes_effect_only_if_its_feature_is_supported(protocol, table, in_force):
    assert is_in_force("appendOnly", protocol, table) is in_force
