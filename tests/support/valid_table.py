"""A valid local table with everything that `verify` checks, and functions that edit its files.

The library's commit writes the table. It has real data files, statistics from their footers, a deletion vector, a
checkpoint, a log compaction and version checksums. The table is partitioned by day and has six versions:

    0  the table, adds a.parquet         3  b.parquet gets a deletion vector (row 0)
    1  adds b.parquet; a checkpoint      4  adds c.parquet
    2  removes a.parquet                 5  a transaction
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.statistics.footer import indexed_columns, statistics_json
from deltalite.protocol.actions import AddFile, Protocol
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.file_names import LOG_DIR, commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.compaction import write_compaction
from tests.unit.builders import NOON_MS, add, commit_actions, metadata, remove, struct, txn

SCHEMA = struct(id="long", name="string", day="date")
PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("deletionVectors",),
    writer_features=("deletionVectors", "changeDataFeed"),
)  # fmt: skip


def create_valid_table(folder: Path) -> LocalLogStore:
    """Create the table in a folder that does not exist yet; returns its store."""
    store = LocalLogStore(str(folder))
    table_metadata = metadata(schema=SCHEMA, partition_columns=("day",), name="orders")
    add_a = write_data_file(store, "a.parquet", [1, 2], ["x", None])
    commit_actions(store, PROTOCOL, table_metadata, add_a, read_version=-1)
    add_b = write_data_file(store, "b.parquet", [3, 4, 5], ["u", "v", "w"])
    commit_actions(store, add_b)
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    commit_actions(store, remove(add_a.path, partition_values=add_a.partition_values, size_bytes=add_a.size_bytes))
    [vector] = write_vectors(store, [pa.array([0], pa.int64())])
    fields = {"partition_values": add_b.partition_values, "size_bytes": add_b.size_bytes}
    commit_actions(
        store, remove(add_b.path, **fields), add(add_b.path, **fields, stats=add_b.stats, deletion_vector=vector)
    )
    commit_actions(store, write_data_file(store, "c.parquet", [6, 7], ["a" * 40, "b" * 40]))
    commit_actions(store, txn("run"))
    for version in range(6):
        write_checksum(Snapshot.load(store, version))
    assert write_compaction(store, 2, 4)
    return store


def write_data_file(store: LocalLogStore, name: str, ids: list[int], names: list[str | None]) -> AddFile:
    """Write a data file to the partition of 2026-01-01; returns the action that adds it."""
    path = Path(store.root) / "day=2026-01-01" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ids, "name": pa.array(names, pa.string())}), path)
    schema = TableSchema(logical=SCHEMA, partition_columns=("day",))
    stats = statistics_json(pq.read_metadata(path), indexed_columns(schema, {}))
    return add(
        f"day=2026-01-01/{name}", partition_values={"day": "2026-01-01"}, size_bytes=path.stat().st_size, stats=stats
    )


def path_of(store: LocalLogStore, name: str) -> Path:
    """The local path of a file of the table."""
    return Path(store.root) / name


def rewrite(store: LocalLogStore, name: str, change: Callable[[str], str]) -> None:
    """Replace the text of a log file by the result of `change`, which must differ from the old text."""
    path = path_of(store, name)
    old_text = path.read_text()
    new_text = change(old_text)
    assert new_text != old_text, f"`change` left {name} as it was: {old_text:.300}"
    path.write_text(new_text)


def edit_commit(store: LocalLogStore, version: int, kind: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Let `change` modify the body of every action of a kind in a commit."""

    def edit_text(text: str) -> str:
        actions = [json.loads(line) for line in text.splitlines()]
        for action in actions:
            if kind in action:
                change(action[kind])
        return "".join(json.dumps(action) + "\n" for action in actions)

    rewrite(store, commit_name(version), edit_text)


def edit_stats(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    """Return a `change` for `edit_commit` that lets the given `change` modify the statistics of an add."""

    def change_body(body: dict[str, Any]) -> None:
        stats = json.loads(body["stats"])
        change(stats)
        body["stats"] = json.dumps(stats)

    return change_body


def log_files(store: LocalLogStore, ending: str) -> list[str]:
    """The names of the log files with this ending, in order."""
    return sorted(f"{LOG_DIR}/{path.name}" for path in (Path(store.root) / LOG_DIR).glob(f"*{ending}"))
