"""Logs for tests: a table with many actions, and checkpoints, compactions and checksums of other engines."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, STRING_MAP, file_key
from deltalite.protocol.actions import DomainMetadata, Protocol, iter_raw_actions, to_json
from deltalite.protocol.file_names import LOG_DIR, SIDECAR_DIR, checksum_name, commit_name, compaction_name
from deltalite.snapshot import Snapshot
from deltalite.storage.memory import MemoryLogStore
from deltalite.upkeep.checkpoint import encode_classic_checkpoint
from tests.unit.builders import NOON_MS, add, load, metadata, new_store, put_raw, remove, txn

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
_FILE_ACTIONS = ("add", "remove")
_SIDECAR = pa.struct(
    [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
)
_CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])


def rich_store() -> MemoryLogStore:
    """A table of two versions with each kind of action that a checkpoint holds, nulls and special characters."""
    store = new_store()
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata", "appendOnly"))
    table_metadata = metadata(
        {"k": "v", "é": ""}, name="n", description="d", created_time_ms=5, partition_columns=("day",),
        format={"provider": "parquet", "options": {}},
    )  # fmt: skip
    full_add = add(
        "day=a%20b/f", partition_values={"day": "a b"}, stats='{"numRecords":1}', tags={"t": None, "u": "x"},
        base_row_id=3, default_row_commit_version=0, clustering_provider="liquid",
    )  # fmt: skip
    put_raw(
        store,
        0,
        [
            protocol, table_metadata, full_add,
            add("g", partition_values={"day": None}), add("h", partition_values={"day": ""}),
            DomainMetadata(domain="delta.unknown", configuration='{"x": 1}', removed=False),
            DomainMetadata(domain="mine", configuration="", removed=False),
            txn("run/ü", 3), txn("old", 1, None),
        ],
    )  # fmt: skip
    full_remove = remove(
        "h", deletion_timestamp_ms=NOON_MS, extended_file_metadata=True, partition_values={"day": None}, size_bytes=10
    )
    put_raw(store, 1, [full_remove, DomainMetadata(domain="mine", configuration="", removed=True)])
    return store


def state_of(snapshot: Snapshot) -> tuple[Any, ...]:
    """The state of a snapshot, as a tuple that tests can compare."""
    return (
        snapshot.protocol,
        snapshot.metadata,
        snapshot.transactions,
        snapshot.domains,
        sorted(map(repr, snapshot.files_with(list(ADD_TYPES)).to_pylist())),
        sorted(map(repr, snapshot.tombstones(list(REMOVE_TYPES)).to_pylist())),
    )


def uuid_name(version: int, kind: str, unique: str = UUID) -> str:
    return f"{LOG_DIR}/{version:020d}.checkpoint.{unique}.{kind}"


def write_v2(
    store: MemoryLogStore,
    version: int,
    name: str,
    *,
    sidecars: int = 0,
    path_format: str = "{}",
    stated_versions: tuple[int, ...] | None = None,
) -> list[str]:
    """Write a checkpoint with V2 content under any name; returns the names of its sidecars.

    Without sidecars, the main file holds the adds and removes. `path_format` takes the name of a sidecar and gives
    its path. `stated_versions` are the versions in `checkpointMetadata`; None means `version`.
    """
    rows = _checkpoint_rows(store, version)
    is_file = pc.or_(pc.is_valid(rows["add"]), pc.is_valid(rows["remove"]))
    files = rows.filter(is_file).select(_FILE_ACTIONS)
    main_tables = [rows.filter(pc.invert(is_file)).drop_columns(_FILE_ACTIONS)]
    stated_versions = (version,) if stated_versions is None else stated_versions
    checkpoint_metadata = [{"version": v, "tags": []} for v in stated_versions]
    main_tables.append(pa.table({"checkpointMetadata": pa.array(checkpoint_metadata, _CHECKPOINT_METADATA)}))
    names = [f"{uuid.uuid4()} {number}.parquet" for number in range(sidecars)]
    for number, sidecar in enumerate(names):
        is_in_sidecar = pa.array([row % sidecars == number for row in range(files.num_rows)], pa.bool_())
        store.files[f"{SIDECAR_DIR}/{sidecar}"] = (to_parquet(files.filter(is_in_sidecar)), 0)
    paths = [path_format.format(sidecar.replace(" ", "%20")) for sidecar in names]
    sidecar_actions = [{"path": path, "sizeInBytes": 1, "modificationTime": 0, "tags": None} for path in paths]
    main_tables.append(pa.table({"sidecar": pa.array(sidecar_actions, _SIDECAR)}))
    if not sidecars:
        main_tables.append(files)
    table = pa.concat_tables(main_tables, promote_options="default")
    store.files[name] = (to_json_lines(table) if name.endswith(".json") else to_parquet(table), 0)
    return [f"{SIDECAR_DIR}/{sidecar}" for sidecar in names]


def write_parts(store: MemoryLogStore, version: int, count: int) -> list[str]:
    """Write a multi-part checkpoint; returns the names of its parts."""
    rows = _checkpoint_rows(store, version)
    names = [f"{LOG_DIR}/{version:020d}.checkpoint.{part:010d}.{count:010d}.parquet" for part in range(1, count + 1)]
    for part, name in enumerate(names):
        is_in_part = pa.array([row % count == part for row in range(rows.num_rows)], pa.bool_())
        store.files[name] = (to_parquet(rows.filter(is_in_part)), 0)
    return names


def _checkpoint_rows(store: MemoryLogStore, version: int) -> pa.Table:
    return pq.read_table(pa.BufferReader(encode_classic_checkpoint(load(store, version), now_ms=NOON_MS).data))


def to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def to_json_lines(table: pa.Table) -> bytes:
    """The rows of a checkpoint as the lines of a JSON checkpoint, without nulls."""
    rows = table.to_pylist(maps_as_pydicts="strict")
    lines = [{kind: _without_nulls(body) for kind, body in row.items() if body is not None} for row in rows]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


def write_compaction(store: MemoryLogStore, first: int, last: int) -> str:
    """Write a compaction with the newest action of these commits for each key; returns the name of the file."""
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    for version in range(first, last + 1):
        name = commit_name(version)
        for kind, body in iter_raw_actions(store.files[name][0], name):
            match kind:
                case "add" | "remove":
                    key = ("file", file_key(body["path"], body.get("deletionVector")))
                case "txn":
                    key = (kind, body["appId"])
                case "domainMetadata":
                    key = (kind, body["domain"])
                case "commitInfo" | "cdc":
                    continue
                case _:
                    key = (kind,)
            newest[key] = {kind: body}
    name = compaction_name(first, last)
    store.files[name] = (b"".join(json.dumps(line).encode() + b"\n" for line in newest.values()), 0)
    return name


def write_checksum(store: MemoryLogStore, version: int, **changes: Any) -> str:
    """Write the checksum file of a version as Spark does; returns its name.

    `changes` replace the values of keys; the value None omits a key.
    """
    snapshot = load(store, version)
    files = snapshot.files
    body = {
        "tableSizeBytes": pc.sum(files["size"]).as_py() or 0,
        "numFiles": files.num_rows,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [to_json(txn) for txn in snapshot.transactions.values()],
        "domainMetadata": [to_json(domain) for domain in snapshot.domains.values()],
        "metadata": to_json(snapshot.metadata),
        "protocol": to_json(snapshot.protocol),
    }
    content = {key: value for key, value in {**body, **changes}.items() if value is not None}
    store.files[checksum_name(version)] = (json.dumps(content).encode(), 0)
    return checksum_name(version)


def with_damaged_pages(data: bytes, column: str) -> bytes:
    """Damage the pages of a column in a Parquet file; returns the new content. `column` is a dotted path."""
    damaged = bytearray(data)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    for chunk in (group.column(number) for group in groups for number in range(group.num_columns)):
        if chunk.path_in_schema == column:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            damaged[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    return bytes(damaged)
