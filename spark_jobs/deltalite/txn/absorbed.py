"""Changes of a table's rules that a commit survives.

Files that were written for one protocol and metadata are right for another where the difference does not concern them:
a protocol that supports more, a comment, a property that steers maintenance or belongs to its user. What is not known
to be harmless is not. delta-spark absorbs fewer: ConflictChecker (protocol compatibility, metadata updates).
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

# They decide when files are compacted, checkpointed or forgotten, or which statistics new files have; no writer has to
# know of them for its rows to be right.
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
        "delta.sampling.enabled",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
_OF_NO_ROW = ("comment", HIGH_WATER_MARK)
# In force, they ask nothing of a data file: they concern readers, maintenance, or what the commit itself sees to.
_ASK_NOTHING = frozenset(
    {"deletionVectors", "domainMetadata", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"}
)
# They decide what a commit may do or has to say of itself, and nothing about the files that it adds.
_OF_COMMITS = frozenset(
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


def contradiction_in_protocol(
    read: Protocol, new: Protocol, metadata: Metadata, changed: Metadata | None
) -> str | None:
    """Why a commit that was made for `read` does not stand under `new`, or None.

    `metadata` was read, and `changed` is what the winner set, if any. A feature asks something of a writer where it is
    in force: one that a property had asked for in vain is so as soon as the protocol supports it.
    """
    newest = changed or metadata
    dropped = supported_features(read) - supported_features(new)
    if dropped:
        return f"it no longer has {', '.join(sorted(dropped))}"
    try:
        check_writable(new, newest)
    except UnsupportedFeatureError as error:
        return error.problem.rstrip(".")
    awake = [name for name in sorted(supported_features(new)) if is_in_force(name, new, newest)]
    woken = [n for n in awake if n not in _ASK_NOTHING and not is_in_force(n, read, metadata)]
    return f"{', '.join(woken)} came into force" if woken else None


def files_stay_right(read: Protocol, new: Protocol, metadata: Metadata, changed: Metadata) -> bool:
    """Whether data files that were written for `read` and `metadata` are right under `new` and `changed`.

    More differences are harmless to them than to a commit, which has to heed rules that are none of its files'.
    """
    old, now = _of_files(metadata), _of_files(changed)
    return contradiction_in_protocol(read, new, old, now) is None and contradiction_in_metadata(old, now) is None


def _of_files(metadata: Metadata) -> Metadata:
    """What of a table's metadata its data files depend on. An id names the table, whoever has made it."""
    configuration = {key: value for key, value in metadata.configuration.items() if key not in _OF_COMMITS}
    return replace(metadata, id="", configuration=configuration)


def contradiction_in_metadata(read: Metadata, new: Metadata) -> str | None:
    """What was changed that a commit made for `read` depends on, or None."""
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
    """Whether two schemas (JSON) differ at most in comments, and in values that were given to other rows meanwhile.

    A commit that gives values itself sets the metadata too, and meets no other that does.
    """

    def bare(members: dict[str, Any]) -> dict[str, Any]:
        about = members.get("metadata")
        if not isinstance(about, dict):
            return members
        return {**members, "metadata": {key: value for key, value in about.items() if key not in _OF_NO_ROW}}

    try:
        return bool(json.loads(schema, object_hook=bare) == json.loads(other, object_hook=bare))
    except (ValueError, RecursionError):
        return False
