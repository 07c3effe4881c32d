"""Writes checkpoints: classic ones, and V2 checkpoints with sidecars if the table's policy requires them.

- The writer counts the files in the encoded data before it publishes the checkpoint.
- It writes sidecars first, then the checkpoint in one put, and `_last_checkpoint` last. A killed process therefore
  leaves no partial checkpoint.
- It keeps a readable checkpoint of the version, and replaces an unreadable checkpoint.

Protocol: Checkpoints, V2 Spec, Sidecar Files, Last Checkpoint File.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.errors import CorruptLogError
from deltalite.log.last_checkpoint import LastCheckpoint, advance_last_checkpoint, read_last_checkpoint
from deltalite.log.listing import CheckpointFiles
from deltalite.log.state import BlocksInvalidated
from deltalite.protocol import properties as props
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import SIDECAR_DIR, checkpoint_name, uuid_checkpoint_name
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.upkeep.checkpoint_rows import NON_FILE_TYPES, V2_TYPES, CheckpointRows

MAX_FILES_IN_ONE_PROCESS = 1_000_000
"""The maximum number of files in a checkpoint that one process writes; Spark writes larger checkpoints."""

_MAX_SIDECAR_ACTIONS = 50_000
_MAX_IN_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedActions:
    """A Parquet file with actions of a checkpoint: its content, the number of actions, and the number of adds."""

    data: bytes
    num_actions: int
    num_adds: int

    @classmethod
    def none(cls, types: Mapping[str, pa.StructType]) -> EncodedActions:
        """Return a file without rows."""
        with closing(_ActionWriter(types)) as writer:
            return cls(data=writer.finish(), num_actions=0, num_adds=0)

    @classmethod
    def of(cls, data: bytes) -> EncodedActions:
        """Count the actions in an encoded file by reading it."""
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            has_files = "add" in file.schema_arrow.names
            adds = file.read(columns=["add.path"]).column("add") if has_files else pa.chunked_array([], pa.null())
            return cls(data=data, num_actions=file.metadata.num_rows, num_adds=len(adds) - adds.null_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of several encoded files."""

    num_actions: int = 0
    num_adds: int = 0
    size_bytes: int = 0

    def plus(self, file: EncodedActions) -> Totals:
        """Return the totals with one more file."""
        return Totals(
            num_actions=self.num_actions + file.num_actions,
            num_adds=self.num_adds + file.num_adds,
            size_bytes=self.size_bytes + len(file.data),
        )


def write_checkpoint(
    snapshot: Snapshot, *, now_ms: int, sidecar_actions: int = _MAX_SIDECAR_ACTIONS
) -> LastCheckpoint | None:
    """Write the checkpoint of a snapshot, with at most `sidecar_actions` actions in a sidecar.

    Returns None if the version already has a readable checkpoint. In both cases, the function points `_last_checkpoint`
    at the checkpoint of the version, unless `_last_checkpoint` names a newer one.

    Raises:
        CorruptLogError: the encoded checkpoint does not hold the files of the snapshot; nothing is published.
        DeltaLiteError: the log cannot be read, or a file cannot be written.
    """
    # Counting the files also removes an unreadable checkpoint from the segment.
    file_count = _file_count(snapshot)
    existing = snapshot.segment.checkpoint_at_version
    if existing is not None:
        record_existing_checkpoint(snapshot.store, existing, file_count=file_count)
        return None
    while True:
        with suppress(BlocksInvalidated):  # the snapshot now reads other log files, and their number is finite
            return _write_new_checkpoint(
                snapshot, file_count=file_count, now_ms=now_ms, sidecar_actions=sidecar_actions
            )


def _write_new_checkpoint(
    snapshot: Snapshot, *, file_count: int, now_ms: int, sidecar_actions: int
) -> LastCheckpoint | None:
    """Write the checkpoint of a version that has none. Return None if another writer has written it meanwhile.

    Raises:
        BlocksInvalidated: as `Snapshot.file_blocks`.
    """
    if _uses_v2(snapshot):
        rows = CheckpointRows(snapshot, now_ms=now_ms)
        sidecars = _encoded_files(rows, sidecar_actions)
        return publish_v2(snapshot, rows, sidecars, file_count=file_count, now_ms=now_ms)
    encoded = encode_classic_checkpoint(snapshot, now_ms=now_ms)
    check_file_count(snapshot, encoded.num_adds, file_count)
    store, name = snapshot.store, checkpoint_name(snapshot.version)
    if not store.write_if_absent(name, encoded.data):
        reloaded = Snapshot.load(store, snapshot.version)
        reloaded_count, existing = _file_count(reloaded), reloaded.segment.checkpoint_at_version
        if existing is not None and reloaded_count == file_count:
            record_existing_checkpoint(store, existing, file_count=file_count)
            return None
        # The existing checkpoint is unreadable or has another number of files, so the new checkpoint replaces it.
        store.write(name, encoded.data)
    return record_new_checkpoint(snapshot, Totals().plus(encoded))


def estimate_file_count(snapshot: Snapshot) -> int:
    """Estimate the number of active files: the number in `_last_checkpoint`, plus the files added later."""
    hint = read_last_checkpoint(snapshot.store)
    if hint is None:
        return snapshot.num_files_added_after_checkpoint
    checkpoint_files = hint.size if hint.num_of_add_files is None else hint.num_of_add_files
    return max(0, checkpoint_files) + snapshot.num_files_added_after_checkpoint


def encode_classic_checkpoint(snapshot: Snapshot, *, now_ms: int) -> EncodedActions:
    """Encode the whole checkpoint as one file.

    Raises:
        BlocksInvalidated: as `Snapshot.file_blocks`.
    """
    rows = CheckpointRows(snapshot, now_ms=now_ms)
    types = {**NON_FILE_TYPES, **rows.file_types}
    with closing(_ActionWriter(types)) as writer:
        for kind, bodies in rows.non_file_actions().items():
            writer.write(kind, pa.array(bodies, types[kind]))
        for kind, structs in rows.files():
            writer.write(kind, structs)
        data = writer.finish()
    return EncodedActions.of(data)


def publish_v2(
    snapshot: Snapshot, rows: CheckpointRows, sidecars: Iterable[EncodedActions], *, file_count: int, now_ms: int
) -> LastCheckpoint:
    """Publish a V2 checkpoint with the given sidecars. Memory holds only one sidecar at a time.

    The main file also contains the columns for file actions, without values.

    Raises:
        CorruptLogError: the sidecars do not hold `file_count` active files.
    """
    store = snapshot.store
    totals, references = Totals(), []
    for encoded in sidecars:
        name = f"{uuid.uuid4()}.parquet"
        store.write_if_absent(f"{SIDECAR_DIR}/{name}", encoded.data)
        totals = totals.plus(encoded)
        references.append({"path": name, "sizeInBytes": len(encoded.data), "modificationTime": now_ms, "tags": {}})
    check_file_count(snapshot, totals.num_adds, file_count)
    # delta-spark 4.4 cannot read the table if this file's schema lacks the field `add`.
    types = {**NON_FILE_TYPES, **V2_TYPES, **rows.file_types}
    bodies: Mapping[str, list[dict[str, Any]]] = {
        "checkpointMetadata": [{"version": snapshot.version, "tags": _tags(totals)}],
        **rows.non_file_actions(),
        "sidecar": references,
    }
    with closing(_ActionWriter(types)) as writer:
        for kind, kind_bodies in bodies.items():
            writer.write(kind, pa.array(kind_bodies, types[kind]))
        main_file = EncodedActions.of(writer.finish())
    store.write_if_absent(uuid_checkpoint_name(snapshot.version, str(uuid.uuid4())), main_file.data)
    return record_new_checkpoint(snapshot, totals.plus(main_file))


def check_file_count(snapshot: Snapshot, num_adds: int, expected_count: int) -> None:
    """Check that a checkpoint holds as many files as the snapshot.

    Raises:
        CorruptLogError: the numbers of files differ.
    """
    if num_adds != expected_count:
        raise CorruptLogError(
            f"The checkpoint of version {snapshot.version} of {snapshot.store.root} would hold "
            f"{counted(num_adds, 'file')} instead of {expected_count}; it was not published.",
            remedy="This is a bug in the library; please report it with the table's log.",
        )


def _encoded_files(rows: CheckpointRows, max_actions: int) -> Iterator[EncodedActions]:
    """Yield the files and tombstones, in Parquet files of at most `max_actions` actions."""
    writer = _ActionWriter(rows.file_types)
    try:
        for kind, structs in rows.files():
            start = 0
            while start < len(structs):
                piece = structs.slice(start, max_actions - writer.num_actions)
                writer.write(kind, piece)
                start += len(piece)
                if writer.num_actions == max_actions:
                    yield EncodedActions.of(writer.finish())
                    writer.close()
                    writer = _ActionWriter(rows.file_types)
        if writer.num_actions:
            yield EncodedActions.of(writer.finish())
    finally:
        writer.close()


def _tags(sidecars: Totals) -> dict[str, str]:
    """Return the tags that describe the sidecars. Protocol: Checkpoint Metadata Tags."""
    return {
        "sidecarNumActions": str(sidecars.num_actions),
        "sidecarSizeInBytes": str(sidecars.size_bytes),
        "numOfAddFiles": str(sidecars.num_adds),
    }


def record_new_checkpoint(snapshot: Snapshot, totals: Totals, *, parts: int | None = None) -> LastCheckpoint:
    """Point `_last_checkpoint` at a new checkpoint with these totals, unless the file names a newer checkpoint.

    `parts` is the number of files of a multi-part checkpoint, None for another checkpoint.
    """
    hint = LastCheckpoint(
        version=snapshot.version,
        size=totals.num_actions,
        parts=parts,
        size_bytes=totals.size_bytes,
        num_of_add_files=totals.num_adds,
    )
    advance_last_checkpoint(snapshot.store, hint)
    return hint


def record_existing_checkpoint(store: LogStore, existing: CheckpointFiles, *, file_count: int | None = None) -> None:
    """Point `_last_checkpoint` at an existing checkpoint, unless the file names a newer checkpoint.

    The number of actions in the checkpoint is unknown. `file_count` is the number of active files, None if unknown.
    """
    hint = LastCheckpoint(version=existing.version, size=-1, parts=existing.parts, num_of_add_files=file_count)
    advance_last_checkpoint(store, hint)


def _uses_v2(snapshot: Snapshot) -> bool:
    """Whether the table's policy requires V2 checkpoints, and its protocol supports them."""
    is_required = props.CHECKPOINT_POLICY.of(snapshot.configuration) == "v2"
    return is_required and "v2Checkpoint" in supported_features(snapshot.protocol)


def _file_count(snapshot: Snapshot) -> int:
    count: int = snapshot.files_with(["path"]).num_rows
    return count


class _ActionWriter:
    """A writer of a Parquet file of actions: one struct column per kind of action; each row sets exactly one column.

    A large file is on disk until `finish`, because a growing memory buffer temporarily needs twice its size.
    """

    def __init__(self, types: Mapping[str, pa.StructType]) -> None:
        self._schema = pa.schema(list(types.items()))
        self._file = SpooledTemporaryFile(_MAX_IN_MEMORY_BYTES)  # noqa: SIM115  `close` closes it
        self._sink = pa.PythonFile(self._file, mode="w")
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="snappy")
        self.num_actions = 0

    def write(self, kind: str, structs: pa.StructArray) -> None:
        """Write actions of one kind."""
        if not len(structs):
            return
        self.num_actions += len(structs)
        columns = [structs if f.name == kind else pa.nulls(len(structs), f.type) for f in self._schema]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def finish(self) -> bytes:
        """Finish the file, and return its content."""
        self._writer.close()
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Discard the file, whether it is finished or not."""
        # An open writer would later write its footer to the closed file.
        self._writer.close()
        self._file.close()
