"""Compatible changes: changes of a table's protocol and metadata that do not conflict with a concurrent commit.

Files that were written for one protocol and metadata stay valid under another if the difference does not concern them:
a protocol with more features, a comment, a property for maintenance, or a custom property. A change that is not known
to be compatible is a conflict. delta-spark accepts fewer changes: ConflictChecker (protocol compatibility, metadata
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
from deltalite.protocol.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION

# These properties control compaction, checkpoints, retention and statistics. Rows are valid without them.
_HARMLESS = frozenset(
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
        "delta.enableDeletionVectors",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.enableInCommitTimestamps",
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
_NOT_ROW_METADATA = ("comment", HIGH_WATER_MARK)
# These features, when active, do not constrain data files: they concern readers, maintenance or the commit itself.
_NOT_FILE_FEATURES = frozenset(
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
        "delta.enableInCommitTimestamps",
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.isolationLevel",
    }
)
_HARMLESS_PREFIXES = ("delta.autoOptimize.", "delta.parquet.")


def conflict_in_protocol(read: Protocol, new: Protocol, metadata: Metadata, changed: Metadata | None) -> str | None:
    """Return why a commit that was made under the protocol `read` conflicts with the protocol `new`, or None.

    `metadata` is the metadata that was read, `changed` the metadata that the winner set, if any. A feature constrains
    writers while it is active. A new protocol may activate a feature that a property had enabled before.
    """
    newest = changed or metadata
    dropped = supported_features(read) - supported_features(new)
    if dropped:
        return f"it no longer has {', '.join(sorted(dropped))}"
    try:
        check_writable(new, newest)
    except UnsupportedFeatureError as error:
        return error.problem.rstrip(".")
    active = [name for name in sorted(supported_features(new)) if is_in_force(name, new, newest)]
    newly_active = [name for name in active if name not in _NOT_FILE_FEATURES and not is_in_force(name, read, metadata)]
    return f"it activates {', '.join(newly_active)}" if newly_active else None


def files_stay_valid(read: Protocol, new: Protocol, metadata: Metadata, changed: Metadata) -> bool:
    """Whether data files that were written under `read` and `metadata` are valid under `new` and `changed`.

    More changes are compatible with files than with a commit, which also has to follow the rules for commits.
    """
    old, now = _file_metadata(metadata), _file_metadata(changed)
    return conflict_in_protocol(read, new, old, now) is None and conflict_in_metadata(old, now) is None


def _file_metadata(metadata: Metadata) -> Metadata:
    """Return the part of the metadata that data files depend on."""
    configuration = {key: value for key, value in metadata.configuration.items() if key not in _COMMIT_PROPERTIES}
    return replace(metadata, id="", configuration=configuration)


def conflict_in_metadata(read: Metadata, new: Metadata) -> str | None:
    """Return the change from `read` to `new` that conflicts with a commit made under `read`, or None."""
    if read.id != new.id:
        return "it is another table"
    if not _is_same_for_rows(read.schema_string, new.schema_string):
        return "its schema"
    if read.partition_columns != new.partition_columns:
        return "its partition columns"
    old, now = dict(read.configuration), dict(new.configuration)
    changed = sorted(key for key in old.keys() | now.keys() if old.get(key) != now.get(key) and not _is_harmless(key))
    return f"the property {', '.join(changed)}" if changed else None


def _is_harmless(key: str) -> bool:
    return not key.lower().startswith("delta.") or key in _HARMLESS or key.startswith(_HARMLESS_PREFIXES)


def _is_same_for_rows(schema: str, other: str) -> bool:
    """Whether two schemas (JSON) differ at most in comments and in the high-water marks of identity columns.

    A commit that assigns identity values sets the metadata itself, so it conflicts with any other change of it.
    """

    def without_ignored_metadata(members: dict[str, Any]) -> dict[str, Any]:
        metadata = members.get("metadata")
        if not isinstance(metadata, dict):
            return members
        return {**members, "metadata": {key: value for key, value in metadata.items() if key not in _NOT_ROW_METADATA}}

    try:
        parsed = [json.loads(text, object_hook=without_ignored_metadata) for text in (schema, other)]
        return bool(parsed[0] == parsed[1])
    except (ValueError, RecursionError):
        return False
