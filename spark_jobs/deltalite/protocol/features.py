"""Table features: checks whether this release can read and write a table.

A table feature is *supported* if the protocol lists it or a legacy version number implies it. It is *active* if the
metadata uses it. A reader must support every listed reader feature. A writer must follow the rules of every supported
and active feature; an inactive feature imposes no rules. The check names each unsupported feature, and runs before
anything is read or written. Protocol: Table Features, Protocol Evolution.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.other_engines import remedy_for
from deltalite.protocol.schema import StructType, all_fields, contains_type, parse_schema
from deltalite.protocol.type_changes import check_type_changes

READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7


def _never(_metadata: Metadata, _schema: StructType) -> bool:
    return False


def _always(_metadata: Metadata, _schema: StructType) -> bool:
    return True


def _is_true(prop: props.Property[bool]) -> Callable[[Metadata, StructType], bool]:
    return lambda metadata, _schema: prop.of(metadata.configuration)


def _has_type(name: str) -> Callable[[Metadata, StructType], bool]:
    return lambda _metadata, schema: contains_type(schema, name)


def _field_has(*keys: str) -> Callable[[Metadata, StructType], bool]:
    return lambda _metadata, schema: any(key in f.metadata for f in all_fields(schema) for key in keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A table feature, and its support in this release.

    - `is_reader_feature`: readers must support it too.
    - `implied_by`, `reader_implied_by`: the legacy writer and reader version that imply it.
    - `active`: whether the metadata uses it.
    - `required`: whether the metadata requires it; None stands for `active`, or for `_never` if `active` is `_always`.
    - `unreadable_reason`: why this release cannot read tables that list the feature; None if it can.
    - `writable_inactive`: whether this release writes tables that list the feature while it is inactive.
    - `writable_active`: whether this release writes tables while the feature is active.
    """

    name: str
    is_reader_feature: bool = False
    implied_by: int | None = None
    reader_implied_by: int | None = None
    active: Callable[[Metadata, StructType], bool] = _never
    required: Callable[[Metadata, StructType], bool] | None = None
    unreadable_reason: str | None = None
    writable_inactive: bool = True
    writable_active: bool = False


def _has_constraints(metadata: Metadata, _schema: StructType) -> bool:
    return any(props.is_constraint(key) for key in metadata.configuration)


def _has_column_mapping(metadata: Metadata, _schema: StructType) -> bool:
    return props.COLUMN_MAPPING_MODE.of(metadata.configuration) != "none"


def _has_v2_checkpoints(metadata: Metadata, _schema: StructType) -> bool:
    return props.CHECKPOINT_POLICY.of(metadata.configuration) == "v2"


_UDT = re.compile(r'"type"\s*:\s*"udt"')
_DECIDED_BY_CATALOG = "a catalog decides which commits are valid, and the log in storage does not contain its decisions"

FEATURES = {
    feature.name: feature
    for feature in (
        Feature(name="appendOnly", implied_by=2, active=_is_true(props.APPEND_ONLY), writable_active=True),
        Feature(name="invariants", implied_by=2, active=_field_has("delta.invariants"), writable_active=True),
        Feature(name="checkConstraints", implied_by=3, active=_has_constraints, writable_active=True),
        Feature(
            name="changeDataFeed",
            implied_by=4,
            active=_is_true(props.ENABLE_CHANGE_DATA_FEED),
            writable_active=True,
        ),
        Feature(
            name="generatedColumns", implied_by=4, active=_field_has("delta.generationExpression"), writable_active=True
        ),
        Feature(name="allowColumnDefaults", active=_field_has("CURRENT_DEFAULT"), writable_active=True),
        Feature(
            name="identityColumns",
            implied_by=6,
            active=_field_has("delta.identity.start", "delta.identity.step"),
            writable_active=True,
        ),
        Feature(
            name="columnMapping",
            is_reader_feature=True,
            implied_by=5,
            reader_implied_by=2,
            active=_has_column_mapping,
            writable_active=True,
        ),
        Feature(
            name="deletionVectors",
            is_reader_feature=True,
            active=_always,
            required=_is_true(props.ENABLE_DELETION_VECTORS),
            writable_active=True,
        ),
        Feature(
            name="timestampNtz",
            is_reader_feature=True,
            active=_has_type("timestamp_ntz"),
            writable_active=True,
        ),
        Feature(
            name="v2Checkpoint",
            is_reader_feature=True,
            active=_always,
            required=_has_v2_checkpoints,
            writable_active=True,
        ),
        Feature(name="vacuumProtocolCheck", is_reader_feature=True, active=_always, writable_active=True),
        Feature(name="checkpointProtection", active=_always, writable_active=True),
        Feature(name="domainMetadata", active=_always, writable_active=True),
        Feature(name="clustering", active=_always, writable_active=True),
        Feature(
            name="rowTracking",
            active=_always,
            required=_is_true(props.ENABLE_ROW_TRACKING),
            writable_active=True,
        ),
        Feature(name="inCommitTimestamp", active=_is_true(props.ENABLE_IN_COMMIT_TIMESTAMPS), writable_active=True),
        Feature(
            name="typeWidening",
            is_reader_feature=True,
            active=_always,
            required=_is_true(props.ENABLE_TYPE_WIDENING),
            writable_active=True,
        ),
        Feature(name="typeWidening-preview", is_reader_feature=True, active=_always, writable_active=True),
        Feature(name="variantType", is_reader_feature=True, active=_has_type("variant"), writable_active=True),
        Feature(name="variantType-preview", is_reader_feature=True, active=_always, writable_active=True),
        Feature(
            name="variantShredding",
            is_reader_feature=True,
            active=_always,
            required=_is_true(props.ENABLE_VARIANT_SHREDDING),
            writable_active=True,
        ),
        Feature(name="variantShredding-preview", is_reader_feature=True, active=_always, writable_active=True),
        *(
            Feature(name=name, is_reader_feature=True, active=_always, unreadable_reason=_DECIDED_BY_CATALOG)
            for name in ("catalogManaged", "catalogOwned", "catalogOwned-preview")
        ),
        Feature(
            name="materializePartitionColumns",
            active=_always,
            required=_is_true(props.ENABLE_MATERIALIZED_PARTITION_COLUMNS),
            writable_active=True,
        ),
        Feature(name="icebergCompatV1", active=_is_true(props.ENABLE_ICEBERG_COMPAT_V1), writable_active=True),
        Feature(name="icebergCompatV2", active=_is_true(props.ENABLE_ICEBERG_COMPAT_V2), writable_active=True),
    )
}


def check_readable(protocol: Protocol, metadata: Metadata) -> None:
    """Check that this release can read the table.

    Raises:
        UnsupportedFeatureError: this release cannot read the table; the message names the version or the features.
        CorruptLogError: the schema, or a recorded type change, is malformed.
    """
    if protocol.min_reader_version not in (1, 2, READER_FEATURES_VERSION):
        raise UnsupportedFeatureError(
            f"The table needs reader version {protocol.min_reader_version}, but this release reads only 1, 2 and 3.",
            remedy="Read the table with an engine that supports this reader version.",
        )
    unsupported = [
        name
        for name in sorted(supported_reader_features(protocol))
        if name not in FEATURES or FEATURES[name].unreadable_reason is not None
    ]
    if unsupported:
        names_and_reasons = [
            f"{name} ({FEATURES[name].unreadable_reason})" if name in FEATURES else name for name in unsupported
        ]
        raise UnsupportedFeatureError(
            f"The table uses table features that this release does not read: {', '.join(names_and_reasons)}.",
            remedy=remedy_for("Read", unsupported),
        )
    check_type_changes(parse_schema(metadata.schema_string))


def check_writable(protocol: Protocol, metadata: Metadata) -> None:
    """Check that this release can read the table and commit to it.

    Raises:
        UnsupportedFeatureError: this release cannot read or write the table; the message names the version or the
            features.
        CorruptLogError: the schema, or a recorded type change, is malformed.
        InvalidRequestError: the text of a property that enables a feature is invalid.
    """
    check_readable(protocol, metadata)
    if not 1 <= protocol.min_writer_version <= WRITER_FEATURES_VERSION:
        raise UnsupportedFeatureError(
            f"The table needs writer version {protocol.min_writer_version}, but this release writes only 1 to 7.",
            remedy="Write the table with an engine that supports this writer version.",
        )
    schema = parse_schema(metadata.schema_string)
    unsupported = sorted(name for name in supported_features(protocol) if not _is_writable(name, metadata, schema))
    if unsupported:
        raise UnsupportedFeatureError(
            f"The table uses table features that this release does not write: {', '.join(unsupported)}.",
            remedy=remedy_for("Write", unsupported),
        )
    if contains_type(schema, "void"):
        raise _unwritable_columns_error("columns of type void")
    if _UDT.search(metadata.schema_string):  # reads replace the type by its storage type, so a write would lose it
        raise _unwritable_columns_error("columns of a user-defined type")


def _unwritable_columns_error(columns: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"The table has {columns}, and this release does not write such tables.",
        remedy="Write the table with the engine that created it.",
    )


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Return all features that the protocol lists or that its legacy version numbers imply."""
    if protocol.min_writer_version >= WRITER_FEATURES_VERSION:
        return frozenset(protocol.writer_features or ()) | supported_reader_features(protocol)
    implied = {
        f.name
        for f in FEATURES.values()
        if f.implied_by is not None
        and f.implied_by <= protocol.min_writer_version
        and (f.reader_implied_by or 1) <= protocol.min_reader_version
    }
    return frozenset(implied) | supported_reader_features(protocol)


def supported_reader_features(protocol: Protocol) -> frozenset[str]:
    """Return the features that a reader must support.

    A reader feature counts even if it is only in the list of writer features. Some engines have written such tables,
    and a read without the feature would return wrong rows.
    """
    misplaced = {n for n in protocol.writer_features or () if n in FEATURES and FEATURES[n].is_reader_feature}
    if protocol.min_reader_version >= READER_FEATURES_VERSION:
        return frozenset(protocol.reader_features or ()) | misplaced
    implied = {
        f.name
        for f in FEATURES.values()
        if f.reader_implied_by is not None and f.reader_implied_by <= protocol.min_reader_version
    }
    return frozenset(implied) | misplaced


def is_in_force(name: str, protocol: Protocol, metadata: Metadata) -> bool:
    """Whether the protocol supports the feature, and the feature is active."""
    feature = FEATURES[name]
    return name in supported_features(protocol) and feature.active(metadata, parse_schema(metadata.schema_string))


def is_required(feature: Feature, metadata: Metadata, schema: StructType) -> bool:
    """Whether the metadata requires the feature."""
    if feature.required is not None:
        return feature.required(metadata, schema)
    return feature.active is not _always and feature.active(metadata, schema)


def _is_writable(name: str, metadata: Metadata, schema: StructType) -> bool:
    """Whether this release writes tables that list the feature, with this metadata."""
    feature = FEATURES.get(name)
    if feature is None:
        return False
    return feature.writable_active if feature.active(metadata, schema) else feature.writable_inactive
