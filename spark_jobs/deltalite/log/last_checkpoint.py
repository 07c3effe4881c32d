"""The `_last_checkpoint` file: a hint for where to start the listing.

A writer replaces the file after the checkpoint is complete, so the file may be stale. Some storages show a partially
written file. If the file or its checksum is invalid, `read_last_checkpoint` returns None and the caller lists the whole
log. The checkpoint's kind and content come from the listing and from the checkpoint, not from this file. Protocol: Last
Checkpoint File, JSON checksum.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalite.log.json_values import parse_count, parse_optional_count
from deltalite.log.last_checkpoint_checksum import canonical_md5, is_intact
from deltalite.protocol.file_names import LAST_CHECKPOINT
from deltalite.storage.log_store import LogStore

# Valid files are much smaller: delta-spark leaves a schema of more than 20,000 characters out of the file.
_LARGEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """The content of the file. `size` counts actions (-1 if unknown); `parts` is set for a multi-part checkpoint."""

    version: int
    size: int
    parts: int | None = None
    size_bytes: int | None = None
    num_of_add_files: int | None = None


def read_last_checkpoint(store: LogStore) -> LastCheckpoint | None:
    """Return the hint, or None if it is missing or invalid."""
    data = store.read_start(LAST_CHECKPOINT, _LARGEST_BYTES + 1)
    if data is None or len(data) > _LARGEST_BYTES:
        return None
    try:
        body = json.loads(data)
        if not is_intact(data):
            return None
        return LastCheckpoint(
            version=parse_count(body["version"]),
            size=int(body.get("size", -1)),
            parts=_parse_parts(body.get("parts")),
            size_bytes=parse_optional_count(body.get("sizeInBytes")),
            num_of_add_files=parse_optional_count(body.get("numOfAddFiles")),
        )
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def advance_last_checkpoint(store: LogStore, hint: LastCheckpoint) -> None:
    """Write the hint, unless the stored hint names the same or a newer version."""
    current = read_last_checkpoint(store)
    if current is None or current.version < hint.version:
        write_last_checkpoint(store, hint)


def write_last_checkpoint(store: LogStore, hint: LastCheckpoint) -> None:
    """Write the hint in place of the stored one.

    `version`, `size` and `parts` come first. They then agree even if a reader sees the file half replaced.
    """
    body: dict[str, Any] = {"version": hint.version, "size": hint.size}
    if hint.parts is not None:
        body["parts"] = hint.parts
    if hint.size_bytes is not None:
        body["sizeInBytes"] = hint.size_bytes
    if hint.num_of_add_files is not None:
        body["numOfAddFiles"] = hint.num_of_add_files
    body["checksum"] = canonical_md5(body)
    store.write(LAST_CHECKPOINT, json.dumps(body, separators=(",", ":")).encode())


def _parse_parts(value: Any) -> int | None:
    parts = parse_optional_count(value)
    if parts == 0:
        raise ValueError(value)
    return parts
