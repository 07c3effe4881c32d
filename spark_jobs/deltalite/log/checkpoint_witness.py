"""What `_last_checkpoint` says of a checkpoint whose files a version checksum counts otherwise.

A checksum and a checkpoint each repeat the log. Where they disagree and the commits are gone, a third count decides:
the writer of the checkpoint noted in `_last_checkpoint` how many files it holds, and how large it is. Protocol: Last
Checkpoint File.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalite.log.checkpoint_reader import read_files
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.listing import CheckpointFiles
from deltalite.protocol.file_names import first_name_of
from deltalite.storage.log_store import LogStore


def is_confirmed(store: LogStore, checkpoint: CheckpointFiles, sources: Sequence[str]) -> bool | None:
    """Whether a checkpoint is as its writer noted; None where nothing was noted of it.

    `sources` are the files of the checkpoint. Raises `CorruptCheckpointError` where one of them cannot be read.
    """
    hint = read_last_checkpoint(store)
    if hint is None or hint.version != checkpoint.version or hint.num_of_add_files is None:
        return None
    if read_files(store, sources, ["path"]).num_rows != hint.num_of_add_files:
        return False
    has_sidecars = len(sources) > len(checkpoint.names)  # of these, writers count the bytes differently
    if has_sidecars or hint.size_bytes is None:
        return True
    return hint.size_bytes == _size_bytes(store, checkpoint)


def _size_bytes(store: LogStore, checkpoint: CheckpointFiles) -> int:
    """The size of the main files of a checkpoint; its names sort together."""
    total, behind = 0, first_name_of(checkpoint.version + 1)
    for stored in store.list_from(first_name_of(checkpoint.version)):
        if stored.name >= behind:
            break
        total += stored.size_bytes if stored.name in checkpoint.names else 0
    return total
