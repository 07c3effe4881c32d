"""The protocol that a table needs: for its metadata, for a request, and for the features that it has already.

Protocol properties (`delta.minReaderVersion`, `delta.minWriterVersion`, `delta.feature.<name>`) are requests. They
change the protocol and are never stored as properties. Only `protocol_with` lowers a protocol, to drop a feature.

- If legacy version numbers imply all needed features, the versions are raised, because all clients understand them.
- Otherwise the table gets feature lists, which only newer clients understand. The lists name each feature that the
  numbers implied, because the table may have used it.
- The reader version stays below 3 if no reader feature needs the list, so that old readers can still read the table.

Protocol: Protocol Evolution, Table Features for New and Existing Tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.errors import InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import (
    FEATURES,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    is_required,
    supported_features,
    supported_reader_features,
)
from deltalite.protocol.properties import FEATURE_PREFIX, MIN_READER_VERSION, MIN_WRITER_VERSION, is_protocol_property
from deltalite.protocol.schema import parse_schema

_LOWEST_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
_COLUMN_MAPPING_READER_VERSION = 2
# The features that a feature requires.
_REQUIRED = {
    "clustering": ("domainMetadata",),
    "icebergCompatV1": ("columnMapping",),
    "icebergCompatV2": ("columnMapping",),
    "rowTracking": ("domainMetadata",),
    "variantShredding": ("variantType",),
}
# Older versions of Delta wrote "enabled" instead of "supported".
_SUPPORTED = ("supported", "enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedProtocol:
    """The versions and features in the protocol properties of a request."""

    min_reader_version: int = 1
    min_writer_version: int = 1
    features: frozenset[str] = frozenset()


def requested_protocol(properties: Mapping[str, str]) -> RequestedProtocol:
    """Return the versions and features in the protocol properties among `properties`.

    Raises:
        InvalidRequestError: a property has an invalid value or names an unknown feature, the versions contradict each
            other, or a feature cannot be enabled by name.
    """
    reader = _requested_version(properties, MIN_READER_VERSION, READER_FEATURES_VERSION)
    writer = _requested_version(properties, MIN_WRITER_VERSION, WRITER_FEATURES_VERSION)
    if reader == READER_FEATURES_VERSION and MIN_WRITER_VERSION in properties and writer < WRITER_FEATURES_VERSION:
        raise InvalidRequestError(
            f"{MIN_READER_VERSION} is {reader} and {MIN_WRITER_VERSION} is {writer}: reader version 3 needs writer "
            "version 7.",
            remedy=f"Set {MIN_WRITER_VERSION} to '7', or leave both out.",
        )
    feature_properties = {key: text for key, text in properties.items() if key.startswith(FEATURE_PREFIX)}
    return RequestedProtocol(
        min_reader_version=reader,
        min_writer_version=WRITER_FEATURES_VERSION if reader == READER_FEATURES_VERSION else writer,
        features=frozenset(_requested_feature(key, text) for key, text in feature_properties.items()),
    )


def is_satisfied(protocol: Protocol, requested: RequestedProtocol) -> bool:
    """Whether the protocol already has the requested versions and features."""
    return (
        requested.features <= supported_features(protocol)
        and requested.min_reader_version <= protocol.min_reader_version
        and requested.min_writer_version <= protocol.min_writer_version
    )


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that the table stores: all except the protocol properties."""
    return {key: text for key, text in properties.items() if not is_protocol_property(key)}


def protocol_for(
    metadata: Metadata, current: Protocol | None = None, requested: RequestedProtocol | None = None
) -> Protocol:
    """Return the lowest protocol that supports the features of `metadata`, of `current` and of `requested`.

    Raises:
        UnsupportedFeatureError: this release does not write a needed feature.
    """
    requested = requested or RequestedProtocol()
    base = current or _LOWEST_PROTOCOL
    schema = parse_schema(metadata.schema_string)
    metadata_features = {f.name for f in FEATURES.values() if is_required(f, metadata, schema)}
    used_features = metadata_features | requested.features
    required_features = used_features | {name for feature in used_features for name in _REQUIRED.get(feature, ())}
    # A table with the preview of a feature keeps the preview: its readers may not know the feature.
    final_features = {name for name in required_features if f"{name}-preview" not in supported_features(base)}
    features = requested.features | final_features
    unwritable = sorted(name for name in features if not FEATURES[name].writable_active)
    if unwritable:
        raise UnsupportedFeatureError(
            "The schema or the properties need table features that this release does not write: "
            f"{', '.join(unwritable)}.",
            remedy="Leave out the properties, or create the table with an engine that supports them.",
        )
    return _with_features(_with_versions(base, requested.min_reader_version, requested.min_writer_version), features)


def merged_protocol(current: Protocol, other: Protocol) -> Protocol:
    """Return the lowest protocol that supports the features of both.

    The caller must ensure that this release knows each feature.
    """
    raised_protocol = _with_versions(current, other.min_reader_version, other.min_writer_version)
    return _with_features(raised_protocol, supported_features(other))


def protocol_with(current: Protocol, features: frozenset[str]) -> Protocol:
    """Return the protocol with exactly these features, listed by name.

    The caller must ensure that this release knows each feature.
    """
    lowest = replace(current, min_reader_version=1, reader_features=None, writer_features=())
    return _with_feature_lists(replace(lowest, min_writer_version=WRITER_FEATURES_VERSION), features, 1)


def _with_versions(base: Protocol, reader: int, writer: int) -> Protocol:
    """Return the protocol with at least these versions."""
    reader, writer = max(reader, base.min_reader_version), max(writer, base.min_writer_version)
    if (reader, writer) == (base.min_reader_version, base.min_writer_version):
        return base
    if writer < WRITER_FEATURES_VERSION:
        return replace(base, min_reader_version=reader, min_writer_version=writer)
    return _with_feature_lists(base, supported_features(base), reader)


def _with_features(base: Protocol, features: frozenset[str]) -> Protocol:
    """Return the protocol with these features too: by legacy versions if these imply all new ones, else by lists."""
    new_features = [FEATURES[name] for name in features - supported_features(base)]
    if not new_features:
        return base
    writer_versions = [f.implied_by for f in new_features if f.implied_by is not None]
    reader_versions = [f.reader_implied_by or 1 for f in new_features]
    if base.min_writer_version < WRITER_FEATURES_VERSION and len(writer_versions) == len(new_features):
        return _with_versions(base, max(reader_versions), max(writer_versions))
    all_features = supported_features(base) | {f.name for f in new_features}
    return _with_feature_lists(base, all_features, base.min_reader_version)


def _with_feature_lists(base: Protocol, features: frozenset[str], reader: int) -> Protocol:
    """Return the protocol that lists `features`, with at least the reader version `reader`.

    The protocol has no list of reader features if a legacy reader version implies all of them.
    """
    reader_features = {name for name in features if name in FEATURES and FEATURES[name].is_reader_feature}
    reader_features |= supported_reader_features(base)
    not_implied = [n for n in reader_features if n not in FEATURES or FEATURES[n].reader_implied_by is None]
    if not_implied or reader >= READER_FEATURES_VERSION:
        reader, reader_list = READER_FEATURES_VERSION, tuple(sorted(reader_features))
    else:
        reader, reader_list = max(reader, _COLUMN_MAPPING_READER_VERSION) if reader_features else reader, None
    return replace(
        base,
        min_reader_version=reader,
        min_writer_version=WRITER_FEATURES_VERSION,
        reader_features=reader_list,
        writer_features=tuple(sorted(features)),
    )


def _requested_version(properties: Mapping[str, str], key: str, highest: int) -> int:
    text = properties.get(key, "1")
    if text not in {str(version) for version in range(1, highest + 1)}:
        raise InvalidRequestError(
            f"The table property {key} is {text!r}; valid versions are 1 to {highest}.",
            remedy="Set a valid version, or leave the property out.",
        )
    return int(text)


def _requested_feature(key: str, text: str) -> str:
    name = next((n for n in FEATURES if n.lower() == key.removeprefix(FEATURE_PREFIX).lower()), None)
    if name is None:
        raise InvalidRequestError(
            f"The table property {key} names an unknown table feature.",
            remedy=f"This release writes {', '.join(n for n, f in FEATURES.items() if f.writable_active)}.",
        )
    if text.lower() not in _SUPPORTED:
        raise InvalidRequestError(
            f"The table property {key} is {text!r}; its only valid value is 'supported'.",
            remedy="Set 'supported', or leave the property out. A write does not remove features.",
        )
    if name == "clustering":
        raise InvalidRequestError(
            f"Could not set {key}: a clustered table needs clustering columns.",
            remedy="Leave the property out, and give `cluster_by` to DeltaTableOperator.",
        )
    return name
