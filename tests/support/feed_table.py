"""A local table that records its changes in the change data feed.

0  the table with the feed          3  optimize: changes no row
1  appends the rows 1, 2, 3         4  adds the column `note`, and appends the row 9
2  merge: updates 1, deletes 2
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.protocol.actions import AddCDCFile, AddFile, Protocol
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.storage.local import LocalLogStore
from tests.unit.builders import add, commit_actions, metadata, remove

FEED_ENABLED = {"delta.enableChangeDataFeed": "true"}
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=4)


def create_feed_table(folder: Path, *, name: str = "name", texts: tuple[str, ...] = ("a", "b", "c")) -> LocalLogStore:
    """Create the table; `name` is the name of the column with the texts of the rows 1 to 3. Returns its store."""
    store = LocalLogStore(str(folder))
    schema = StructType((StructField("id", PrimitiveType("long")), StructField(name, PrimitiveType("string"))))
    commit_actions(store, PROTOCOL, metadata(FEED_ENABLED, schema=schema), read_version=-1)
    first = write_file(store, "first", {"id": [1, 2, 3], name: list(texts)})
    commit_actions(store, first)
    merged = write_file(store, "merged", {"id": [1, 3], name: [texts[0] * 2, texts[2]]})
    changes = {
        "id": [1, 1, 2],
        name: [texts[0], texts[0] * 2, texts[1]],
        "_change_type": ["update_preimage", "update_postimage", "delete"],
    }
    cdc = write_file(store, "_change_data", changes)
    commit_actions(
        store,
        merged,
        remove(first.path, size_bytes=first.size_bytes, partition_values={}),
        AddCDCFile(path=cdc.path, partition_values={}, size_bytes=cdc.size_bytes, data_change=False),
    )
    optimized = write_file(store, "optimized", {"id": [1, 3], name: [texts[0] * 2, texts[2]]})
    commit_actions(
        store,
        add(optimized.path, size_bytes=optimized.size_bytes, data_change=False),
        remove(merged.path, size_bytes=merged.size_bytes, partition_values={}, data_change=False),
    )
    wider_schema = StructType((*schema.fields, StructField("note", PrimitiveType("string"))))
    appended = write_file(store, "appended", {"id": [9], name: ["z"], "note": ["new"]})
    commit_actions(store, metadata(FEED_ENABLED, schema=wider_schema), appended)
    return store


def write_file(store: LocalLogStore, path: str, columns: dict[str, list]) -> AddFile:
    """Write a data file; returns the action that adds it."""
    target = Path(store.root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), target)
    return add(path, size_bytes=target.stat().st_size)
