"""Writing a classic checkpoint: the state of a version as one Parquet file.

The rows are the protocol, the metadata, each unexpired transaction, each domain, the active files and the tombstones
that other readers may still need; never provenance or change files. The file is published complete or not at all, and
the hint only after it. Protocol: Checkpoints, Checkpoint Schema, Action Reconciliation (tombstone and transaction
expiry).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltalite.errors import CorruptLogError
from deltalite.log.file_table import REMOVE_TYPES, STRING_MAP
from deltalite.log.last_checkpoint import LastCheckpoint, read_last_checkpoint, write_last_checkpoint
from deltalite.protocol import properties as props
from deltalite.protocol.actions import to_json
from deltalite.protocol.file_names import checkpoint_name
from deltalite.snapshot import Snapshot

_STRINGS = pa.list_(pa.string())
_SMALL_TYPES: Mapping[str, pa.StructType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}


def write_checkpoint(snapshot: Snapshot, *, now_ms: int) -> LastCheckpoint:
    """Write the classic checkpoint of a snapshot, and point `_last_checkpoint` at it unless that points further.

    A checkpoint of this version that exists already is left as it is: it says the same.
    """
    rows = checkpoint_rows(snapshot, now_ms=now_ms)
    add_count = _count(rows, "add")
    if add_count != snapshot.files.num_rows:
        raise CorruptLogError(
            f"The checkpoint of version {snapshot.version} would hold {add_count} files instead of "
            f"{snapshot.files.num_rows}.",
            remedy="This is a fault of the library; please report it with the table's log.",
        )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="snappy")
    data = sink.getvalue().to_pybytes()
    store = snapshot.store
    store.write_if_absent(checkpoint_name(snapshot.version), data)
    hint = LastCheckpoint(
        version=snapshot.version, size=rows.num_rows, size_bytes=len(data), num_of_add_files=add_count
    )
    current = read_last_checkpoint(store)
    if current is None or current.version < snapshot.version:
        write_last_checkpoint(store, hint)
    return hint


def checkpoint_rows(snapshot: Snapshot, *, now_ms: int) -> pa.Table:
    """All rows of the checkpoint: one struct column a kind of action, exactly one of them set in each row."""
    expired_ms = now_ms - props.DELETED_FILE_RETENTION_MS.of(snapshot.configuration)
    small = {
        "protocol": [to_json(snapshot.protocol)],
        "metaData": [to_json(snapshot.metadata)],
        "txn": [to_json(txn) for txn in snapshot.transactions.values()],
        "domainMetadata": [to_json(domain) for domain in snapshot.domains.values()],
    }
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        kind: pa.array(bodies, _SMALL_TYPES[kind]) for kind, bodies in small.items()
    }
    columns["add"] = _as_structs(snapshot.files_with())
    columns["remove"] = _as_structs(_unexpired(snapshot.tombstones(list(REMOVE_TYPES)), expired_ms))
    return _stacked(columns)


def _unexpired(tombstones: pa.Table, expired_ms: int) -> pa.Table:
    """A tombstone without a time counts as expired. Protocol: Action Reconciliation."""
    deleted_ms = pc.fill_null(tombstones["deletionTimestamp"], 0)
    return tombstones.filter(pc.greater(deleted_ms, expired_ms))


def _as_structs(table: pa.Table) -> pa.ChunkedArray:
    """The rows as structs with `dataChange: false`: a checkpoint only restates."""
    stated = table.append_column("dataChange", pa.repeat(pa.scalar(False), table.num_rows))
    return pa.chunked_array([batch.to_struct_array() for batch in stated.to_batches()], pa.struct(list(stated.schema)))


def _stacked(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    schema = pa.schema([(kind, values.type) for kind, values in columns.items()])
    return pa.concat_tables(
        pa.table([v if k == kind else pa.nulls(len(values), v.type) for k, v in columns.items()], schema=schema)
        for kind, values in columns.items()
    )


def _count(rows: pa.Table, kind: str) -> int:
    missing: int = rows[kind].null_count
    return len(rows) - missing
