"""Checkpoint protection: which expired history a cleanup of the log may delete.

DROP FEATURE hides the commits that used the feature behind checkpoints, and protects all checkpoints before a version:
`delta.requireCheckpointProtectionBeforeVersion`. A client without the feature reads later versions from these
checkpoints. Cleanup may delete protected history in two cases:

- This release supports the protocol of each version that cleanup deletes, and of the version that becomes the oldest.
- Cleanup deletes the whole protected history at once, without a limit to the number of files.

The checksum of a version holds its protocol. Protocol: Checkpoint Protection (RFC); delta-spark: MetadataCleanup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltalite.errors import UnsupportedFeatureError
from deltalite.log.version_checksum import parse_version_checksum
from deltalite.protocol import properties as props
from deltalite.protocol.actions import Protocol
from deltalite.protocol.features import check_writable, supported_features
from deltalite.protocol.file_names import checksum_name
from deltalite.storage.log_store import LogStore


def protected_before(protocol: Protocol, configuration: Mapping[str, str]) -> int:
    """Return the version before which checkpoints are protected; 0 if no checkpoint is protected."""
    if "checkpointProtection" not in supported_features(protocol):
        return 0
    return props.CHECKPOINT_PROTECTION_VERSION.of(configuration)


def supports_each_version(store: LogStore, versions: Iterable[int]) -> bool:
    """Whether each version has a checksum, and this release can write a table with its protocol and metadata.

    The check begins at the newest version, which most likely used the dropped feature.
    """
    return all(_supports_version(store, version) for version in sorted(set(versions), reverse=True))


def _supports_version(store: LogStore, version: int) -> bool:
    name = checksum_name(version)
    data = store.read(name)
    checksum = None if data is None else parse_version_checksum(data, name)
    if checksum is None:
        return False
    try:
        check_writable(checksum.protocol, checksum.metadata)
    except UnsupportedFeatureError:
        return False
    return True
