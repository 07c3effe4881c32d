"""Which protocol a table needs: what its metadata uses, what is asked for by name or number, and what it has already.

Properties that speak of the protocol (`delta.minReaderVersion`, `delta.minWriterVersion`, `delta.feature.<name>`) are
requests, not properties: they become protocol and are never stored. A protocol only grows. While every feature that is
needed has an old number, the numbers are raised, since all clients understand numbers and only newer ones understand
lists; the first feature without one moves the table to lists, which name everything that its numbers implied, because
any of it may have been used. The reader's number stays below 3 as long as no feature needs more, so that old readers
stay readers. Protocol: Protocol Evolution, Table Features for New and Existing Tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from deltalite.errors import InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import (
    FEATURES,
    READER_FEATURES_VERSION,
    WRITER_FEATURES_VERSION,
    asked_for,
    supported_features,
    supported_reader_features,
)
from deltalite.protocol.properties import FEATURE_PREFIX, MIN_READER_VERSION, MIN_WRITER_VERSION, is_protocol_property
from deltalite.protocol.schema import parse_schema

_LEAST = Protocol(min_reader_version=1, min_writer_version=2)
_MAPPED_READER_VERSION = 2
_REQUIRED = {"clustering": ("domainMetadata",), "rowTracking": ("domainMetadata",)}
# The second is what Delta called the first once.
_SUPPORTED = ("supported", "enabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedProtocol:
    """What a request asks of the protocol, whatever its metadata needs."""

    min_reader_version: int = 1
    min_writer_version: int = 1
    features: frozenset[str] = frozenset()


def asked_protocol(properties: Mapping[str, str]) -> AskedProtocol:
    """What the properties among `properties` that speak of the protocol ask for.

    Raises:
        InvalidRequestError: a version or a state that does not exist, an unknown feature, or one that needs more than
            its name.
    """
    reader = _version(properties, MIN_READER_VERSION, READER_FEATURES_VERSION)
    writer = _version(properties, MIN_WRITER_VERSION, WRITER_FEATURES_VERSION)
    if reader == READER_FEATURES_VERSION and MIN_WRITER_VERSION in properties and writer < WRITER_FEATURES_VERSION:
        raise InvalidRequestError(
            f"{MIN_READER_VERSION} is {reader} and {MIN_WRITER_VERSION} is {writer}: reader version 3 needs writer "
            "version 7.",
            remedy=f"Set {MIN_WRITER_VERSION} to '7', or leave both out.",
        )
    named = {key: text for key, text in properties.items() if key.startswith(FEATURE_PREFIX)}
    return AskedProtocol(
        min_reader_version=reader,
        min_writer_version=WRITER_FEATURES_VERSION if reader == READER_FEATURES_VERSION else writer,
        features=frozenset(_feature(key, text) for key, text in named.items()),
    )


def is_satisfied(protocol: Protocol, asked: AskedProtocol) -> bool:
    """Whether the protocol is already all that is asked for."""
    return (
        asked.features <= supported_features(protocol)
        and asked.min_reader_version <= protocol.min_reader_version
        and asked.min_writer_version <= protocol.min_writer_version
    )


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that the table keeps: all but those that speak of the protocol."""
    return {key: text for key, text in properties.items() if not is_protocol_property(key)}


def protocol_for(metadata: Metadata, current: Protocol | None = None, asked: AskedProtocol | None = None) -> Protocol:
    """The least protocol that supports what `metadata` uses, what is `asked` for, and all that `current` supports.

    Raises:
        UnsupportedFeatureError: a feature is needed that this release does not write.
    """
    asked = asked or AskedProtocol()
    base = current or _LEAST
    schema = parse_schema(metadata.schema_string)
    used = {f.name for f in FEATURES.values() if asked_for(f, metadata, schema)} | asked.features
    needed = used | {name for feature in used for name in _REQUIRED.get(feature, ())}
    refused = sorted(name for name in needed if not FEATURES[name].writable_active)
    if refused:
        raise UnsupportedFeatureError(
            f"The schema or the properties need table features that this release does not write: {', '.join(refused)}.",
            remedy="Leave out the properties, or create the table with an engine that supports them.",
        )
    raised = _raised(base, asked.min_reader_version, asked.min_writer_version)
    missing = needed - supported_features(raised)
    return _with_features(raised, missing) if missing else raised


def merged_protocol(current: Protocol, other: Protocol) -> Protocol:
    """The least protocol that supports all that each of two supports, of which this release knows every feature."""
    raised = _raised(current, other.min_reader_version, other.min_writer_version)
    missing = supported_features(other) - supported_features(raised)
    return _with_features(raised, missing) if missing else raised


def _raised(base: Protocol, reader: int, writer: int) -> Protocol:
    """The protocol with at least these versions."""
    reader, writer = max(reader, base.min_reader_version), max(writer, base.min_writer_version)
    if (reader, writer) == (base.min_reader_version, base.min_writer_version):
        return base
    if writer < WRITER_FEATURES_VERSION:
        return replace(base, min_reader_version=reader, min_writer_version=writer)
    return _listed(base, supported_features(base), reader)


def _with_features(base: Protocol, missing: Iterable[str]) -> Protocol:
    added = [FEATURES[name] for name in missing]
    numbers = [f.implied_by for f in added if f.implied_by is not None]
    readers = [f.reader_implied_by or 1 for f in added]
    if base.min_writer_version < WRITER_FEATURES_VERSION and len(numbers) == len(added):
        return _raised(base, max(readers), max(numbers))
    return _listed(base, supported_features(base) | {f.name for f in added}, base.min_reader_version)


def _listed(base: Protocol, features: frozenset[str], reader: int) -> Protocol:
    """The protocol that lists `features`; those of readers too, unless the reader's old numbers say them all."""
    readers = {n for n in features if n in FEATURES and FEATURES[n].is_reader_feature} | supported_reader_features(base)
    unnumbered = [n for n in readers if n not in FEATURES or FEATURES[n].reader_implied_by is None]
    if unnumbered or reader >= READER_FEATURES_VERSION:
        reader, names = READER_FEATURES_VERSION, tuple(sorted(readers))
    else:
        reader, names = max(reader, _MAPPED_READER_VERSION) if readers else reader, None
    return replace(
        base,
        min_reader_version=reader,
        min_writer_version=WRITER_FEATURES_VERSION,
        reader_features=names,
        writer_features=tuple(sorted(features)),
    )


def _version(properties: Mapping[str, str], key: str, most: int) -> int:
    text = properties.get(key, "1")
    if text not in {str(version) for version in range(1, most + 1)}:
        raise InvalidRequestError(
            f"The table property {key} is {text!r}, and versions are 1 to {most}.", remedy="Set one, or leave it out."
        )
    return int(text)


def _feature(key: str, text: str) -> str:
    name = next((n for n in FEATURES if n.lower() == key.removeprefix(FEATURE_PREFIX).lower()), None)
    if name is None:
        raise InvalidRequestError(
            f"The table property {key} names an unknown table feature.",
            remedy=f"It writes these: {', '.join(n for n, f in FEATURES.items() if f.writable_active)}.",
        )
    if text.lower() not in _SUPPORTED:
        raise InvalidRequestError(
            f"The table property {key} is {text!r}, and a feature can only be 'supported'.",
            remedy="Set 'supported', or leave the property out: a write does not remove features.",
        )
    if name == "clustering":
        raise InvalidRequestError(
            f"Could not set {key}: a clustered table needs clustering columns, which a task cannot set.",
            remedy="Create it with an engine that has CLUSTER BY; this release writes to it then.",
        )
    return name
