"""The rows of a checkpoint: the state of a version, one action per row.

The rows are the protocol, the metadata, the unexpired transactions, the domains, the active files and the unexpired
tombstones. A checkpoint holds no provenance and no change files. Files are processed in blocks, so that memory never
holds all statistics of a large table. The table's properties select statistics as JSON, as a struct, both or neither.
The Parquet schema has no columns for unknown fields of actions, so a checkpoint drops them. Protocol: Checkpoints,
Checkpoint Schema, Action Reconciliation (tombstone and transaction expiry).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, STRING_MAP
from deltalite.protocol import properties as props
from deltalite.protocol.actions import to_json
from deltalite.protocol.clustering import clustering_columns
from deltalite.protocol.features import supported_features
from deltalite.snapshot import Snapshot
from deltalite.upkeep.partition_struct import PartitionStruct
from deltalite.upkeep.stats_struct import StatsStruct

_BLOCK_ROWS = 50_000
_READ_ROWS = 10_000
_BLOCK_BYTES = 32 * 1024 * 1024
_STRINGS = pa.list_(pa.string())
NON_FILE_TYPES: Mapping[str, pa.StructType] = {
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
V2_TYPES: Mapping[str, pa.StructType] = {
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", STRING_MAP)]),
    "sidecar": pa.struct(
        [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", STRING_MAP)]
    ),
}


class CheckpointRows:
    """The rows of the checkpoint of a snapshot, and their schema.

    `now_ms` is the time (milliseconds UTC) that decides which tombstones have expired.
    """

    def __init__(self, snapshot: Snapshot, *, now_ms: int) -> None:
        self._snapshot = snapshot
        self.oldest_tombstone_ms = now_ms - props.DELETED_FILE_RETENTION_MS.of(snapshot.configuration)
        self.layout = AddLayout(snapshot)

    @property
    def file_types(self) -> Mapping[str, pa.StructType]:
        """The columns `add` and `remove`."""
        return {"add": self.layout.type, "remove": _with_data_change(REMOVE_TYPES)}

    def non_file_actions(self) -> dict[str, list[dict[str, Any]]]:
        """Return all actions except file actions as JSON values, by kind."""
        snapshot = self._snapshot
        return {
            "protocol": [to_json(snapshot.protocol)],
            "metaData": [to_json(snapshot.metadata)],
            "txn": [to_json(txn) for txn in snapshot.transactions.values()],
            "domainMetadata": [to_json(domain) for domain in snapshot.domains.values()],
        }

    def files(self) -> Iterator[tuple[str, pa.StructArray]]:
        """Yield the active files and the unexpired tombstones in blocks, as (`add` or `remove`, rows).

        Raises:
            BlocksInvalidated: as `Snapshot.file_blocks`.
        """
        columns = [name for name in ADD_TYPES if name != "stats" or self.layout.has_statistics]
        for block in _even_blocks(self._snapshot.file_blocks(columns, max_rows=_READ_ROWS)):
            yield "add", self.layout.rows(block)
        tombstones = _unexpired_tombstones(self._snapshot.tombstones(list(REMOVE_TYPES)), self.oldest_tombstone_ms)
        for block in tombstones.to_batches(max_chunksize=_BLOCK_ROWS):
            yield "remove", _as_structs(pa.Table.from_batches([block]), self.file_types["remove"])


class AddLayout:
    """The columns of a table's active files in a checkpoint, as its properties require.

    `statistics` and `partition_values` create the structs, and are None if the properties disable them.
    `partition_values` is also None for a table without partitions. `as_json` is True if the checkpoint holds statistics
    as JSON.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        configuration, schema = snapshot.configuration, snapshot.table_schema
        as_struct = props.CHECKPOINT_STATS_AS_STRUCT.of(configuration)
        features = supported_features(snapshot.protocol)
        clustering = clustering_columns(snapshot.domains) if "clustering" in features else ()
        indexed_leaves = indexed_columns(schema, configuration, always=clustering).leaves
        may_have_wide_bounds = "deletionVectors" in features
        self.as_json = props.CHECKPOINT_STATS_AS_JSON.of(configuration)
        self.statistics = StatsStruct(indexed_leaves, with_tight_bounds=may_have_wide_bounds) if as_struct else None
        self.partition_values = PartitionStruct(schema) if as_struct and schema.partition_columns else None
        columns = {name: data_type for name, data_type in ADD_TYPES.items() if name != "stats" or self.as_json}
        if self.partition_values is not None:
            columns["partitionValues_parsed"] = self.partition_values.type
        if self.statistics is not None:
            columns["stats_parsed"] = self.statistics.type
        self.type = _with_data_change(columns)

    @property
    def has_statistics(self) -> bool:
        """Whether the checkpoint holds statistics in any form."""
        return self.as_json or self.statistics is not None

    def rows(self, files: pa.Table) -> pa.StructArray:
        """Convert a table of active files to the `add` rows of a checkpoint."""
        if self.partition_values is not None:
            structs = self.partition_values.parse(files["partitionValues"])
            files = files.append_column("partitionValues_parsed", structs)
        if self.statistics is not None:
            files = files.append_column("stats_parsed", self.statistics.parse(files["stats"]))
        return _as_structs(files, self.type)


def _even_blocks(blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Split and merge blocks to the size of one row group; only the last block may be much smaller.

    The bytes are limited too, because statistics of many columns take kilobytes per file, as JSON and as a struct.
    """
    parts, rows, size_bytes = list[pa.Table](), 0, 0
    for block in blocks:
        part_rows = max(1, block.num_rows * _BLOCK_BYTES // max(block.nbytes, _BLOCK_BYTES))
        for start in range(0, block.num_rows, part_rows):
            parts.append(block.slice(start, part_rows))
            rows, size_bytes = rows + parts[-1].num_rows, size_bytes + parts[-1].nbytes
            if rows >= _BLOCK_ROWS or size_bytes >= _BLOCK_BYTES:
                yield pa.concat_tables(parts)
                parts, rows, size_bytes = [], 0, 0
    if parts:
        yield pa.concat_tables(parts)


def _with_data_change(columns: Mapping[str, pa.DataType]) -> pa.StructType:
    return pa.struct([*columns.items(), ("dataChange", pa.bool_())])


def _as_structs(table: pa.Table, target: pa.StructType) -> pa.StructArray:
    """Convert rows to structs with `dataChange: false`, because a checkpoint changes no rows."""
    with_data_change = table.append_column("dataChange", pa.repeat(pa.scalar(False), table.num_rows))
    columns = with_data_change.select([f.name for f in target]).combine_chunks()
    return columns.to_struct_array().combine_chunks()


def _unexpired_tombstones(tombstones: pa.Table, oldest_ms: int) -> pa.Table:
    """Return the unexpired tombstones. A tombstone without a time is expired. Protocol: Action Reconciliation."""
    deleted_ms = pc.fill_null(tombstones["deletionTimestamp"], 0)
    return tombstones.filter(pc.greater(deleted_ms, oldest_ms))
