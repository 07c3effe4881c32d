"""The bytes of the commits after the newest checkpoint, for each version of a log."""

from __future__ import annotations

from deltalite.log.listing import Listing


def commit_bytes_after_checkpoint(listing: Listing) -> dict[int, int]:
    """Return, for each version, the bytes of the commits after the newest checkpoint at or before the version.

    A version is left out if its commit is missing, or if the log cannot rebuild it. Compactions are ignored, although a
    reader may read a compaction in place of commits.
    """
    checkpoints = {checkpoint.version for checkpoint in listing.checkpoints}
    sizes: dict[int, int] = {}
    for version in sorted(listing.commits):
        if version in checkpoints:
            sizes[version] = 0
        elif version == 0:
            sizes[version] = listing.commits[version].size_bytes
        elif version - 1 in sizes:
            sizes[version] = sizes[version - 1] + listing.commits[version].size_bytes
        elif version - 1 in checkpoints:
            sizes[version] = listing.commits[version].size_bytes
    return sizes
