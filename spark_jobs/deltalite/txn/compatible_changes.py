"""Compatible changes: changes of a table's protocol and metadata that do not conflict with a concurrent commit.

A change is compatible if data files that were written before it stay valid after it. Examples are a new feature that
does not concern data files, a comment, a property for maintenance, and a custom property. All changes that this module
does not list are conflicts. delta-spark accepts fewer changes: ConflictChecker (protocol compatibility, metadata
updates).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import check_writable, is_in_force, supported_features
from deltalite.protocol.identity_columns import HIGH_WATER_MARK
from deltalite.protocol.properties import (
    ENABLE_DELETION_VECTORS,
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
)

# Data files are valid with any value of these properties. They control statistics, the names and sizes of new files,
# deletion vectors, commit timestamps, checkpoints, and retention.
_HARMLESS_PROPERTIES = frozenset(
    {
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.dataSkippingStringPrefixLength",
        "delta.deletedFileRetentionDuration",
        ENABLE_DELETION_VECTORS.key,
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        ENABLE_IN_COMMIT_TIMESTAMPS.key,
        ICT_ENABLEMENT_TIMESTAMP,
        ICT_ENABLEMENT_VERSION,
        "delta.logRetentionDuration",
        "delta.randomizeFilePrefixes",
        "delta.randomPrefixLength",
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.sampling.enabled",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
# The meaning of rows does not depend on this metadata of columns.
_IGNORED_COLUMN_METADATA = ("comment", HIGH_WATER_MARK)
# These features, when active, do not constrain data files: they concern readers, maintenance or the commit itself.
_FEATURES_WITHOUT_FILE_RULES = frozenset(
    {
        "checkpointProtection",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
# These properties constrain commits, and not the files that they add.
_COMMIT_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.enableChangeDataFeed",
        ENABLE_IN_COMMIT_TIMESTAMPS.key,
        ICT_ENABLEMENT_TIMESTAMP,
        ICT_ENABLEMENT_VERSION,
        "delta.isolationLevel",
    }
)
_HARMLESS_PREFIXES = ("delta.autoOptimize.", "delta.parquet.")


def conflict_in_protocol(
    read_protocol: Protocol, new_protocol: Protocol, read_metadata: Metadata, new_metadata: Metadata | None
) -> str | None:
    """Return why a new protocol conflicts with a commit that was made under `read_protocol`, or None.

    `new_metadata` is None if the winning commit did not set the metadata. A feature constrains writers while it is
    active. A new protocol may activate a feature that a property had enabled before.
    """
    metadata = new_metadata or read_metadata
    dropped_features = supported_features(read_protocol) - supported_features(new_protocol)
    if dropped_features:
        return f"it no longer has {', '.join(sorted(dropped_features))}"
    try:
        check_writable(new_protocol, metadata)
    except UnsupportedFeatureError as error:
        return error.problem.rstrip(".")
    active = [name for name in sorted(supported_features(new_protocol)) if is_in_force(name, new_protocol, metadata)]
    newly_active = [
        name
        for name in active
        if name not in _FEATURES_WITHOUT_FILE_RULES and not is_in_force(name, read_protocol, read_metadata)
    ]
    return f"it activates {', '.join(newly_active)}" if newly_active else None


def files_stay_valid(
    read_protocol: Protocol, new_protocol: Protocol, read_metadata: Metadata, new_metadata: Metadata
) -> bool:
    """Whether data files that were written under the read protocol and metadata are valid under the new ones.

    Changes of `_COMMIT_PROPERTIES` are compatible here, because the next attempt makes a new commit for the files.
    """
    read_metadata, new_metadata = _file_metadata(read_metadata), _file_metadata(new_metadata)
    protocol_conflict = conflict_in_protocol(read_protocol, new_protocol, read_metadata, new_metadata)
    return protocol_conflict is None and conflict_in_metadata(read_metadata, new_metadata) is None


def _file_metadata(metadata: Metadata) -> Metadata:
    """Return the part of the metadata that data files depend on."""
    configuration = {key: value for key, value in metadata.configuration.items() if key not in _COMMIT_PROPERTIES}
    # Data files do not depend on the table's id, and each attempt to create a table generates another one.
    return replace(metadata, id="", configuration=configuration)


def conflict_in_metadata(read_metadata: Metadata, new_metadata: Metadata) -> str | None:
    """Return the change of the metadata that conflicts with a commit made under `read_metadata`, or None.

    The change is a noun phrase such as "its schema", or the clause "it is another table".
    """
    if read_metadata.id != new_metadata.id:
        return "it is another table"
    if not _is_same_for_rows(read_metadata.schema_string, new_metadata.schema_string):
        return "its schema"
    if read_metadata.partition_columns != new_metadata.partition_columns:
        return "its partition columns"
    before, after = dict(read_metadata.configuration), dict(new_metadata.configuration)
    keys = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key) and not _is_harmless(key)
    )
    if not keys:
        return None
    return f"the property {keys[0]}" if len(keys) == 1 else f"the properties {', '.join(keys)}"


def _is_harmless(key: str) -> bool:
    """Whether a change of this table property conflicts with no concurrent commit."""
    return not key.lower().startswith("delta.") or key in _HARMLESS_PROPERTIES or key.startswith(_HARMLESS_PREFIXES)


def _is_same_for_rows(schema_string: str, other_schema_string: str) -> bool:
    """Whether two schemas (JSON) differ at most in comments and in the high-water marks of IDENTITY columns.

    The high-water marks do not matter here. A commit that generates IDENTITY values sets the metadata, so it conflicts
    with every other commit that sets the metadata.
    """

    def without_ignored_metadata(members: dict[str, Any]) -> dict[str, Any]:
        metadata = members.get("metadata")
        if not isinstance(metadata, dict):
            return members
        return {
            **members,
            "metadata": {key: value for key, value in metadata.items() if key not in _IGNORED_COLUMN_METADATA},
        }

    try:
        schema, other_schema = (
            json.loads(text, object_hook=without_ignored_metadata) for text in (schema_string, other_schema_string)
        )
        return bool(schema == other_schema)
    except (ValueError, RecursionError):
        return False
