"""Writing checkpoints: classic ones, and V2 ones with sidecars where the table's policy asks for them.

1 The files are counted in what was encoded, before anything that a reader looks for is published. 2 Sidecars come
first, then the checkpoint itself, complete or not at all, and `_last_checkpoint` at the end. So a process that is
killed leaves no half checkpoint. 3 A sound checkpoint of the version is left as it is; one that cannot be read is
replaced. Protocol: Checkpoints, V2 Spec, Sidecar Files, Last Checkpoint File.
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
from deltalite.log.state import StartAgain
from deltalite.protocol import properties as props
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import SIDECAR_DIR, checkpoint_name, uuid_checkpoint_name
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.upkeep.checkpoint_rows import SMALL_TYPES, V2_TYPES, CheckpointRows

LARGE_FILES = 1_000_000
"""Above so many files a table is looked after by Spark, in parallel, and not in the memory of one process."""

_SIDECAR_ACTIONS = 50_000
_MOST_IN_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedActions:
    """A Parquet file with actions of a checkpoint: its content, and how many of them it holds."""

    data: bytes
    actions: int
    adds: int

    @classmethod
    def none(cls, types: Mapping[str, pa.StructType]) -> EncodedActions:
        """A file without a row."""
        with closing(_Sink(types)) as sink:
            return cls(data=sink.finished(), actions=0, adds=0)

    @classmethod
    def of(cls, data: bytes) -> EncodedActions:
        """What a file holds, as a reader finds it."""
        with pq.ParquetFile(pa.BufferReader(data)) as file:
            has_files = "add" in file.schema_arrow.names
            adds = file.read(columns=["add.path"]).column("add") if has_files else pa.chunked_array([], pa.null())
            return cls(data=data, actions=file.metadata.num_rows, adds=len(adds) - adds.null_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What several encoded files hold together."""

    actions: int = 0
    adds: int = 0
    size_bytes: int = 0

    def plus(self, file: EncodedActions) -> Totals:
        """These with one file more."""
        return Totals(
            actions=self.actions + file.actions,
            adds=self.adds + file.adds,
            size_bytes=self.size_bytes + len(file.data),
        )


def write_checkpoint(
    snapshot: Snapshot, *, now_ms: int, sidecar_actions: int = _SIDECAR_ACTIONS
) -> LastCheckpoint | None:
    """Write the checkpoint of a snapshot, and point `_last_checkpoint` at it unless that points further.

    None where the version has a sound checkpoint already; `_last_checkpoint` is then mended if it is behind.

    Raises:
        CorruptLogError: the encoded checkpoint would not hold the files of the snapshot; nothing is published.
    """
    file_count = _file_count(snapshot)  # passes over a checkpoint that cannot be read
    existing = snapshot.segment.own_checkpoint
    if existing is not None:
        announce_existing(snapshot.store, existing, file_count=file_count)
        return None
    while True:
        with suppress(StartAgain):
            return _written(snapshot, file_count=file_count, now_ms=now_ms, sidecar_actions=sidecar_actions)


def _written(snapshot: Snapshot, *, file_count: int, now_ms: int, sidecar_actions: int) -> LastCheckpoint | None:
    """`write_checkpoint` where the version has none. Raises `StartAgain`, as `Snapshot.file_blocks` does."""
    if _uses_v2(snapshot):
        rows = CheckpointRows(snapshot, now_ms=now_ms)
        sidecars = _encoded_files(rows, sidecar_actions)
        return publish_v2(snapshot, rows, sidecars, file_count=file_count, now_ms=now_ms)
    encoded = classic_checkpoint(snapshot, now_ms=now_ms)
    check_count(snapshot, encoded.adds, file_count)
    store, name = snapshot.store, checkpoint_name(snapshot.version)
    if not store.write_if_absent(name, encoded.data):
        found = Snapshot.load(store, snapshot.version)
        found_count, faster = _file_count(found), found.segment.own_checkpoint
        if faster is not None and found_count == file_count:
            announce_existing(store, faster, file_count=file_count)
            return None
        store.write(name, encoded.data)
    return announce(snapshot, Totals().plus(encoded))


def estimated_files(snapshot: Snapshot) -> int:
    """About how many files the table has: what the hint says of its checkpoint's, and those that newer commits add."""
    hint = read_last_checkpoint(snapshot.store)
    known = 0 if hint is None else hint.size if hint.num_of_add_files is None else hint.num_of_add_files
    return max(0, known) + snapshot.files_of_commits


def classic_checkpoint(snapshot: Snapshot, *, now_ms: int) -> EncodedActions:
    """The whole checkpoint as one file. Raises `StartAgain`, as `Snapshot.file_blocks` does."""
    rows = CheckpointRows(snapshot, now_ms=now_ms)
    types = {**SMALL_TYPES, **rows.file_types}
    with closing(_Sink(types)) as sink:
        for kind, bodies in rows.small_bodies().items():
            sink.write(kind, pa.array(bodies, types[kind]))
        for kind, structs in rows.files():
            sink.write(kind, structs)
        data = sink.finished()
    return EncodedActions.of(data)


def publish_v2(
    snapshot: Snapshot, rows: CheckpointRows, sidecars: Iterable[EncodedActions], *, file_count: int, now_ms: int
) -> LastCheckpoint:
    """Publish a V2 checkpoint whose files, `file_count` of them active, stand in `sidecars`; one is held at a time.

    The main file has the columns of the files too, with nothing in them.

    Raises:
        CorruptLogError: they are more or fewer.
    """
    store = snapshot.store
    totals, references = Totals(), []
    for encoded in sidecars:
        name = f"{uuid.uuid4()}.parquet"
        store.write_if_absent(f"{SIDECAR_DIR}/{name}", encoded.data)
        totals = totals.plus(encoded)
        references.append({"path": name, "sizeInBytes": len(encoded.data), "modificationTime": now_ms, "tags": {}})
    check_count(snapshot, totals.adds, file_count)
    # delta-spark 4.4 looks for a field `add` in this file's schema, and reads no table where it is missing.
    types = {**SMALL_TYPES, **V2_TYPES, **rows.file_types}
    bodies: Mapping[str, list[dict[str, Any]]] = {
        "checkpointMetadata": [{"version": snapshot.version, "tags": _tags(totals)}],
        **rows.small_bodies(),
        "sidecar": references,
    }
    with closing(_Sink(types)) as sink:
        for kind, found in bodies.items():
            sink.write(kind, pa.array(found, types[kind]))
        main = EncodedActions.of(sink.finished())
    store.write_if_absent(uuid_checkpoint_name(snapshot.version, str(uuid.uuid4())), main.data)
    return announce(snapshot, totals.plus(main))


def check_count(snapshot: Snapshot, adds: int, expected: int) -> None:
    """Return where a checkpoint holds as many files as the snapshot has. Raises `CorruptLogError`."""
    if adds != expected:
        raise CorruptLogError(
            f"The checkpoint of version {snapshot.version} of {snapshot.store.root} would hold {adds} files instead of "
            f"{expected}; it was not published.",
            remedy="This is a bug in the library; please report it with the table's log.",
        )


def _encoded_files(rows: CheckpointRows, most_actions: int) -> Iterator[EncodedActions]:
    """The files and tombstones, in Parquet files of so many actions."""
    sink = _Sink(rows.file_types)
    try:
        for kind, structs in rows.files():
            at = 0
            while at < len(structs):
                piece = structs.slice(at, most_actions - sink.actions)
                sink.write(kind, piece)
                at += len(piece)
                if sink.actions == most_actions:
                    yield EncodedActions.of(sink.finished())
                    sink.close()
                    sink = _Sink(rows.file_types)
        if sink.actions:
            yield EncodedActions.of(sink.finished())
    finally:
        sink.close()


def _tags(sidecars: Totals) -> dict[str, str]:
    """What the protocol's tags say of the sidecars. Protocol: Checkpoint Metadata Tags."""
    return {
        "sidecarNumActions": str(sidecars.actions),
        "sidecarSizeInBytes": str(sidecars.size_bytes),
        "numOfAddFiles": str(sidecars.adds),
    }


def announce(snapshot: Snapshot, totals: Totals, *, parts: int | None = None) -> LastCheckpoint:
    """Point `_last_checkpoint` at a new checkpoint whose files hold this, unless it points further."""
    hint = LastCheckpoint(
        version=snapshot.version,
        size=totals.actions,
        parts=parts,
        size_bytes=totals.size_bytes,
        num_of_add_files=totals.adds,
    )
    advance_last_checkpoint(snapshot.store, hint)
    return hint


def announce_existing(store: LogStore, existing: CheckpointFiles, *, file_count: int | None = None) -> None:
    """Point `_last_checkpoint` at a checkpoint that nobody has counted the actions of, unless it points further.

    `file_count` are its active files, None where nobody has counted these either.
    """
    hint = LastCheckpoint(version=existing.version, size=-1, parts=existing.parts, num_of_add_files=file_count)
    advance_last_checkpoint(store, hint)


def _uses_v2(snapshot: Snapshot) -> bool:
    """Whether the table asks for V2 checkpoints, and its readers understand them."""
    wanted = props.CHECKPOINT_POLICY.of(snapshot.configuration) == "v2"
    return wanted and "v2Checkpoint" in supported_features(snapshot.protocol)


def _file_count(snapshot: Snapshot) -> int:
    count: int = snapshot.files_with(["path"]).num_rows
    return count


class _Sink:
    """A Parquet file of actions in the making: a struct column a kind, exactly one of them set in each row.

    One that grows large does so on the disk of this process, since a buffer that grows is held twice.
    """

    def __init__(self, types: Mapping[str, pa.StructType]) -> None:
        self._schema = pa.schema(list(types.items()))
        self._file = SpooledTemporaryFile(_MOST_IN_MEMORY_BYTES)  # noqa: SIM115  until `close`
        self._sink = pa.PythonFile(self._file, mode="w")
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="snappy")
        self.actions = 0

    def write(self, kind: str, structs: pa.StructArray) -> None:
        if not len(structs):
            return
        self.actions += len(structs)
        columns = [structs if f.name == kind else pa.nulls(len(structs), f.type) for f in self._schema]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def finished(self) -> bytes:
        """The whole file."""
        self._writer.close()
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Let go of what was written, whole or not."""
        self._writer.close()  # which would write its end later, into a file that is closed
        self._file.close()
