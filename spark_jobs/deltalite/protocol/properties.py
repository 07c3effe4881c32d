"""Table properties: their keys, defaults and parsers.

A key that begins with `delta.` is known if this module has a `Property` or a constant for the key or its prefix.
Writers reject unknown keys, as Delta does, and readers ignore them. Keys without `delta.` belong to the user.
Protocol: Table Properties (appendix); defaults as in delta-spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltalite.errors import InvalidRequestError
from deltalite.protocol.intervals import parse_interval_ms

_T = TypeVar("_T")

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_SIZE = re.compile(r"(\d+)\s*(?:([kmgtp]?)b?)")


def _parse_boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"{text!r} is neither 'true' nor 'false'")
    return lowered == "true"


def _parse_positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"{text!r} is not positive")
    return value


def _parse_not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(f"{text!r} is below 0")
    return value


def _parse_minus_one_or_more(text: str) -> int:
    value = int(text)
    if value < -1:
        raise ValueError(f"{text!r} is below -1")
    return value


_MAX_BYTES = 2**62


def _parse_bytes(text: str) -> int:
    """Parse a size such as `134217728`, `128mb` or `1 GB` as Spark does: units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip().lower())
    value = 0 if match is None else int(match[1]) * 1024 ** " kmgtp".index(match[2] or " ")
    if not 1 <= value <= _MAX_BYTES:
        raise ValueError(f"{text!r} is not a size such as '128mb'")
    return value


def _parser_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        choice = next((choice for choice in allowed if choice.lower() == text.lower()), None)
        if choice is None:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")
        return choice

    return parse


@dataclass(frozen=True, slots=True)
class Property(Generic[_T]):
    """A table property: its key, its default, and the parser of its text."""

    key: str
    default: _T
    parse: Callable[[str], _T]

    def of(self, configuration: Mapping[str, str]) -> _T:
        """Return the value in a table's configuration, or the default.

        Raises:
            InvalidRequestError: the text is not a valid value.
        """
        text = configuration.get(self.key)
        if text is None:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidRequestError(
                f"Invalid value of the table property {self.key}: {error}.", remedy="Set a valid value, or unset it."
            ) from error


APPEND_ONLY = Property("delta.appendOnly", False, _parse_boolean)
CHECKPOINT_INTERVAL = Property("delta.checkpointInterval", 10, _parse_positive)
CHECKPOINT_PROTECTION_VERSION = Property("delta.requireCheckpointProtectionBeforeVersion", 0, _parse_not_negative)
CHECKPOINT_STATS_AS_JSON = Property("delta.checkpoint.writeStatsAsJson", True, _parse_boolean)
CHECKPOINT_STATS_AS_STRUCT = Property("delta.checkpoint.writeStatsAsStruct", True, _parse_boolean)
CHECKPOINT_POLICY = Property("delta.checkpointPolicy", "classic", _parser_of("classic", "v2"))
COLUMN_MAPPING_MODE = Property("delta.columnMapping.mode", "none", _parser_of("none", "name", "id"))
DELETED_FILE_RETENTION_MS = Property("delta.deletedFileRetentionDuration", 7 * DAY_MS, parse_interval_ms)
ENABLE_CHANGE_DATA_FEED = Property("delta.enableChangeDataFeed", False, _parse_boolean)
ENABLE_DELETION_VECTORS = Property("delta.enableDeletionVectors", False, _parse_boolean)
ENABLE_EXPIRED_LOG_CLEANUP = Property("delta.enableExpiredLogCleanup", True, _parse_boolean)
ENABLE_ICEBERG_COMPAT_V1 = Property("delta.enableIcebergCompatV1", False, _parse_boolean)
ENABLE_ICEBERG_COMPAT_V2 = Property("delta.enableIcebergCompatV2", False, _parse_boolean)
ENABLE_IN_COMMIT_TIMESTAMPS = Property("delta.enableInCommitTimestamps", False, _parse_boolean)
ENABLE_MATERIALIZED_PARTITION_COLUMNS = Property(
    "delta.enableMaterializePartitionColumnsFeature", False, _parse_boolean
)
ENABLE_ROW_TRACKING = Property("delta.enableRowTracking", False, _parse_boolean)
ENABLE_TYPE_WIDENING = Property("delta.enableTypeWidening", False, _parse_boolean)
ENABLE_VARIANT_SHREDDING = Property("delta.enableVariantShredding", False, _parse_boolean)
ROW_TRACKING_SUSPENDED = Property("delta.rowTrackingSuspended", False, _parse_boolean)
ISOLATION_LEVEL = Property("delta.isolationLevel", "Serializable", _parser_of("Serializable", "WriteSerializable"))
LOG_RETENTION_MS = Property("delta.logRetentionDuration", 30 * DAY_MS, parse_interval_ms)
NUM_INDEXED_COLUMNS = Property("delta.dataSkippingNumIndexedCols", 32, _parse_minus_one_or_more)
RANDOM_FILE_PREFIXES = Property("delta.randomizeFilePrefixes", False, _parse_boolean)
SET_TRANSACTION_RETENTION_MS: Property[int | None] = Property(
    "delta.setTransactionRetentionDuration", None, parse_interval_ms
)
STATS_COLUMNS: Property[str | None] = Property("delta.dataSkippingStatsColumns", None, str)
SYMLINK_MANIFESTS = Property("delta.compatibility.symlinkFormatManifest.enabled", False, _parse_boolean)
STRING_PREFIX_LENGTH = Property("delta.dataSkippingStringPrefixLength", 32, _parse_not_negative)
TARGET_FILE_SIZE: Property[int | None] = Property("delta.targetFileSize", None, _parse_bytes)
WRITE_PARTITION_COLUMNS_TO_PARQUET = Property("delta.writePartitionColumnsToParquet", False, _parse_boolean)

MIN_READER_VERSION = "delta.minReaderVersion"
MIN_WRITER_VERSION = "delta.minWriterVersion"
FEATURE_PREFIX = "delta.feature."
CONSTRAINT_PREFIX = "delta.constraints."
COLUMN_MAPPING_MAX_ID = "delta.columnMapping.maxColumnId"
ICT_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
ICT_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
# Writers set these properties. Users cannot.
MAINTAINED_KEYS = frozenset({COLUMN_MAPPING_MAX_ID, ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP})

_DECLARED = {p.key: p for p in list(vars().values()) if isinstance(p, Property)}


def is_protocol_property(key: str) -> bool:
    """Whether the property requests a protocol change; such a property is never stored."""
    return key in (MIN_READER_VERSION, MIN_WRITER_VERSION) or key.startswith(FEATURE_PREFIX)


def is_constraint(key: str) -> bool:
    """Whether the property is a CHECK constraint. Delta ignores the case of the prefix."""
    return key.lower().startswith(CONSTRAINT_PREFIX)


def is_declared_or_custom(key: str) -> bool:
    """Whether this module has a `Property` for the key, or the key does not begin with `delta.`.

    It is False for constraints, for protocol properties, and for the properties that writers maintain.
    """
    return not key.startswith("delta.") or key in _DECLARED


def check_new_properties(properties: Mapping[str, str]) -> None:
    """Check that `delta.` properties exist and have valid values.

    Raises:
        InvalidRequestError: a property is unknown or invalid; the message names it.
    """
    for key, text in properties.items():
        if not isinstance(text, str):
            raise InvalidRequestError(
                f"The table property {key} is {text!r}, which is not text.", remedy="Write property values as strings."
            )
        if is_constraint(key) and len(key) > len(CONSTRAINT_PREFIX) and text.strip():
            continue
        if not key.startswith("delta.") or is_protocol_property(key):
            continue
        if key in MAINTAINED_KEYS:
            raise InvalidRequestError(
                f"Delta maintains the table property {key}, so no task can set it.",
                remedy="Remove it from the properties.",
            )
        if not is_declared_or_custom(key):
            raise InvalidRequestError(
                f"Unknown table property {key}.",
                remedy="Check the spelling. The name of a custom property must not begin with 'delta.'.",
            )
        _DECLARED[key].of({key: text})
    check_manifests_are_possible(properties)


def check_manifests_are_possible(configuration: Mapping[str, str]) -> None:
    """Check that the other properties allow symlink manifests, if they are enabled.

    A manifest names whole files and no columns. Readers of a manifest would see soft-deleted rows, and could not
    resolve physical names. delta-spark: Protocol.assertTablePropertyConstraintsSatisfied.

    Raises:
        InvalidRequestError: another property excludes manifests; the message names it.
    """
    if not SYMLINK_MANIFESTS.of(configuration):
        return
    excluding = [p.key for p in (ENABLE_DELETION_VECTORS, COLUMN_MAPPING_MODE) if p.of(configuration) != p.default]
    if excluding:
        raise InvalidRequestError(
            f"{SYMLINK_MANIFESTS.key} and {excluding[0]} exclude each other: readers of manifests support neither "
            "deletion vectors nor column mapping, and would see wrong rows.",
            remedy="Set only one of the two.",
        )
