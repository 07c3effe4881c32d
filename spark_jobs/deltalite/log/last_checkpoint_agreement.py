"""Compares a checkpoint with `_last_checkpoint` if the version checksum contradicts the checkpoint.

Checksums and checkpoints repeat the content of commits. After log cleanup, the commits cannot show which of the two is
right. `_last_checkpoint` decides then, because it records the checkpoint's number of files and size. Protocol: Last
Checkpoint File.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalite.log.checkpoint_reader import read_adds
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.listing import CheckpointFiles
from deltalite.protocol.file_names import first_name_of
from deltalite.storage.log_store import LogStore


def agrees_with_last_checkpoint(store: LogStore, checkpoint: CheckpointFiles, sources: Sequence[str]) -> bool | None:
    """Whether a checkpoint agrees with `_last_checkpoint`; None if `_last_checkpoint` does not describe the checkpoint.

    `sources` are the files of the checkpoint.

    Raises:
        CorruptCheckpointError: a file of the checkpoint cannot be read.
    """
    hint = read_last_checkpoint(store)
    if hint is None or hint.version != checkpoint.version or hint.num_of_add_files is None:
        return None
    if read_adds(store, sources, ["path"]).num_rows != hint.num_of_add_files:
        return False
    has_sidecars = len(sources) > len(checkpoint.names)  # writers count the bytes of sidecars differently
    if has_sidecars or hint.size_bytes is None:
        return True
    return hint.size_bytes == _size_bytes(store, checkpoint)


def _size_bytes(store: LogStore, checkpoint: CheckpointFiles) -> int:
    """Return the total size of the main files of a checkpoint, in bytes."""
    total, end_name = 0, first_name_of(checkpoint.version + 1)
    for stored in store.list_from(first_name_of(checkpoint.version)):
        if stored.name >= end_name:
            break
        total += stored.size_bytes if stored.name in checkpoint.names else 0
    return total
