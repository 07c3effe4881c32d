"""delta-spark, the reference implementation, reads every kind of file that this library writes.

This library writes the tables, with a change feed and some with deletion vectors. Each copy of a table gets one kind of
checkpoint and loses the commits before it, so delta-spark must read that checkpoint. One session of delta-spark reads
all copies.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands.generate_manifest import generate_manifest
from deltalite.log.file_table import ADD_TYPES
from deltalite.protocol.file_names import (
    LAST_CHECKPOINT,
    LOG_DIR,
    MANIFEST_DIR,
    checkpoint_name,
    checksum_name,
    commit_name,
)
from deltalite.requests import GenerateManifestRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.large_tables.large_checkpoint import write_large_checkpoint
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.compaction import write_compaction
from tests.support.delta_spark import DeltaSpark, in_order
from tests.support.selection import sampled
from tests.support.tables import delete_rows, update_rows, values, write_rows
from tests.unit.builders import NOON_MS

pytestmark = [pytest.mark.spark, pytest.mark.interop]

FEED_AND_VECTORS = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
PROPERTIES_BY_TABLE = {
    "v1": FEED_AND_VECTORS,
    "v2": FEED_AND_VECTORS | {"delta.checkpointPolicy": "v2"},
    "without vectors": {"delta.enableChangeDataFeed": "true", "delta.checkpoint.writeStatsAsJson": "false"},
}
CHECKPOINT_VERSION, NEWEST_VERSION = 3, 5
WITHOUT_VECTORS = "classic with struct statistics only"
"""The only kind with symlink manifests, because a table with deletion vectors cannot have them."""


def write_table(spark, table: Path, properties: dict[str, str]) -> None:
    """Write six versions: two writes, a delete, an update, a delete and a write."""
    first = values("id, name", *(f"{n}L, '{'ab'[n % 2]} ü'" for n in range(8)))
    write_rows(spark, table, first, properties=properties, partition_by=["name"])
    write_rows(spark, table, values("id, name", "8L, 'a ü'", "9L, NULL"))
    delete_rows(spark, table, "id IN (1, 8)")
    update_rows(spark, table, {"id": "id + 100"}, "id = 2")
    delete_rows(spark, table, "id = 3")
    write_rows(spark, table, values("id, name", "10L, 'c'"))


def write_in_this_process(_spark, snapshot: Snapshot) -> None:
    write_checkpoint(snapshot, now_ms=NOON_MS, sidecar_actions=2)


def write_by_spark(spark, snapshot: Snapshot) -> None:
    write_large_checkpoint(spark, snapshot, now_ms=NOON_MS, actions_per_file=2)


def write_under_a_classic_name(_spark, snapshot: Snapshot) -> None:
    """Write a V2 checkpoint and rename it, as log cleanup does for readers that know only classic names."""
    write_in_this_process(_spark, snapshot)
    checkpoint = Snapshot.load(snapshot.store, CHECKPOINT_VERSION).segment.checkpoint_at_version
    assert checkpoint is not None
    shutil.move(
        f"{snapshot.store.root}/{checkpoint.names[0]}", f"{snapshot.store.root}/{checkpoint_name(CHECKPOINT_VERSION)}"
    )


KINDS = {
    "classic": ("v1", write_in_this_process),
    WITHOUT_VECTORS: ("without vectors", write_in_this_process),
    "multi-part": ("v1", write_by_spark),
    "V2": ("v2", write_in_this_process),
    "V2 by Spark": ("v2", write_by_spark),
    "V2 under a classic name": ("v2", write_under_a_classic_name),
}
SAMPLE = (WITHOUT_VECTORS, "multi-part", "V2")
"""One kind for each table in `PROPERTIES_BY_TABLE`. Together these kinds have every kind of file."""


def delete_log_before_checkpoint(table: Path, *, has_hint: bool) -> None:
    """Delete the commits and checksums before the checkpoint, and `_last_checkpoint` unless `has_hint`."""
    for version in range(CHECKPOINT_VERSION):
        for name in (commit_name(version), checksum_name(version)):
            (table / name).unlink()
    if not has_hint:
        (table / LAST_CHECKPOINT).unlink()


def as_lists(rows: pa.Table) -> list[list[Any]]:
    """Return rows in the form and the order in which the session of delta-spark returns them."""
    return in_order([list(row.values()) for row in rows.to_pylist()])


def lines_of_manifests(table: Path) -> dict[str, list[str]]:
    """Return the sorted lines of each symlink manifest of a table, by the manifest's path."""
    manifests = (table / MANIFEST_DIR).rglob("manifest")
    return {
        str(manifest.relative_to(table)): sorted(manifest.read_text(encoding="utf-8").split()) for manifest in manifests
    }


@pytest.fixture(scope="module")
def answers_by_kind(spark, quick_plans, delta_spark, tmp_path_factory, pytestconfig) -> dict[str, tuple[Path, Any]]:
    """The copy of each kind and the answers of delta-spark for it. Only the campaign has a copy of every kind."""
    folder = tmp_path_factory.mktemp("reference")
    kinds = KINDS if pytestconfig.getoption("--campaign") else {kind: KINDS[kind] for kind in SAMPLE}
    for name, properties in PROPERTIES_BY_TABLE.items():
        write_table(spark, folder / name, properties)
    copies = {}
    for number, (kind, (name, write)) in enumerate(kinds.items()):
        copies[kind] = copy = folder / kind.replace(" ", "_")
        shutil.copytree(folder / name, copy)
        store = LocalLogStore(str(copy))
        write(spark, Snapshot.load(store, CHECKPOINT_VERSION))
        assert write_compaction(store, CHECKPOINT_VERSION + 1, NEWEST_VERSION)
        delete_log_before_checkpoint(copy, has_hint=number % 2 == 0)
        assert Snapshot.load(store, NEWEST_VERSION).segment.checkpoint is not None
    answers = {kind: answers_of(delta_spark, copy) for kind, copy in copies.items()}
    with_manifests = copies[WITHOUT_VECTORS]
    delta_spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{with_manifests}`")
    answers[WITHOUT_VECTORS]["manifests"] = lines_of_manifests(with_manifests)
    shutil.rmtree(with_manifests / MANIFEST_DIR)
    generate_manifest(spark, GenerateManifestRequest(table=str(with_manifests)))
    return {kind: (copy, answers[kind]) for kind, copy in copies.items()}


def answers_of(delta_spark: DeltaSpark, table: Path) -> dict[str, Any]:
    """Return the rows of each version, the history and the changed rows of a table, as delta-spark reads them."""
    history = delta_spark.sql(f"DESCRIBE HISTORY delta.`{table}`")
    return {
        "rows": delta_spark.rows(table),
        "versions": {n: delta_spark.rows(table, version=n) for n in range(CHECKPOINT_VERSION, NEWEST_VERSION + 1)},
        "operations": [row[4] for row in sorted(history)],
        "changes": delta_spark.changes(table, CHECKPOINT_VERSION + 1),
    }


@pytest.mark.parametrize("kind", sampled(list(KINDS), SAMPLE))
def test_delta_spark_reads_the_same_rows_and_changes_as_this_library(answers_by_kind, kind):
    table, answer = answers_by_kind[kind]
    assert answer["rows"] == as_lists(DeltaTable(str(table)).to_arrow())
    for version in range(CHECKPOINT_VERSION, NEWEST_VERSION + 1):
        assert answer["versions"][version] == as_lists(DeltaTable(str(table), version=version).to_arrow())
    assert answer["operations"] == ["UPDATE", "DELETE", "WRITE"]
    changes = pa.Table.from_batches(DeltaTable(str(table)).changes(from_version=CHECKPOINT_VERSION + 1))
    assert answer["changes"] == as_lists(changes.drop(["_commit_timestamp"]))


def test_delta_spark_writes_the_same_manifests_as_this_library(answers_by_kind):
    table, answer = answers_by_kind[WITHOUT_VECTORS]
    manifests = lines_of_manifests(table)
    assert len(manifests) > 1
    assert manifests == answer["manifests"]


def test_the_tables_have_every_kind_of_file(answers_by_kind):
    """Without a file of each kind, the tests above would not prove that delta-spark reads this kind."""
    tables = {kind: table for kind, (table, _) in answers_by_kind.items()}
    names = {kind: {str(f.relative_to(t)) for f in t.rglob("*") if f.is_file()} for kind, t in tables.items()}
    for kind in names.keys() & {"classic", WITHOUT_VECTORS}:
        assert f"{LOG_DIR}/{CHECKPOINT_VERSION:020d}.checkpoint.parquet" in names[kind]
    assert any(".checkpoint.0000000001.00000000" in name for name in names["multi-part"])
    assert sum("/_sidecars/" in name for name in names["V2"]) > 1
    for kind, table in tables.items():
        assert checksum_name(NEWEST_VERSION) in names[kind]
        assert any(name.endswith(".compacted.json") for name in names[kind])
        vectors = Snapshot.load(LocalLogStore(str(table))).files_with(list(ADD_TYPES))["deletionVector"]
        assert (vectors.null_count < len(vectors)) is (kind != WITHOUT_VECTORS)
    assert any(name.startswith("_change_data/") for name in names[WITHOUT_VECTORS])
