"""A checkpoint that Spark writes, in one or several files, has the same actions as a checkpoint of a local process."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import LOG_DIR, SIDECAR_DIR, checkpoint_name, commit_name
from deltalite.protocol.schema import DecimalType, PrimitiveType, StructField, StructType
from deltalite.snapshot import Snapshot
from deltalite.spark.large_tables.large_checkpoint import write_any_checkpoint, write_large_checkpoint
from deltalite.spark.runtime.session import settings
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import encode_classic_checkpoint
from tests.support.golden import table_names
from tests.unit.builders import NOON_MS, add, commit_actions, load, metadata, remove, txn, vector
from tests.unit.logs import state_of

pytestmark = pytest.mark.usefixtures("one_task")

COLUMNS = {
    "n": "byte", "f": "double", "s": "string", "d": "date", "t": "timestamp", "z": "timestamp_ntz", "b": "boolean",
}  # fmt: skip
SCHEMA = StructType(
    (
        *(StructField(name, PrimitiveType(type_name)) for name, type_name in COLUMNS.items()),
        StructField("m", DecimalType(5, 2)),
        StructField("in.ner", StructType((StructField("x", PrimitiveType("long")),))),
        StructField("day", PrimitiveType("date")),
        StructField("At", PrimitiveType("timestamp")),
    )
)
BOUNDS = [
    {"n": 5, "f": 0.1, "s": "ü\n", "d": "2026-01-02", "t": "2026-01-01T12:00:00.123Z", "z": "2026-01-01T12:00:00.123"},
    {"n": 1000, "f": "NaN", "d": "2026-02-30", "t": "2026-01-01T12:00:00.123", "z": "x", "b": True},
    {"t": "2026-01-01T04:00:00.000-08:00", "m": 123.45, "in.ner": {"x": -1}},
    {"m": 1234.5, "n": -1},
]
STATISTICS = [
    json.dumps({"numRecords": 3, "tightBounds": True, "minValues": b, "maxValues": b, "nullCount": {"s": 1}})
    for b in BOUNDS
]
STATISTICS += [None, "", "5", "{", '{"numRecords":-1,"nullCount":{"n":-2}}']
FEATURES = ("deletionVectors", "timestampNtz")


def create_table(path, policy):
    """Create a table with actions of five kinds in three commits; returns its store."""
    features = (*FEATURES, "v2Checkpoint") if policy == "v2" else FEATURES
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=features, writer_features=features)
    store = LocalLogStore(str(path))
    table_metadata = metadata({"delta.checkpointPolicy": policy}, SCHEMA, partition_columns=("day", "At"))
    days = [{"day": f"2026-01-{n + 1:02d}", "At": "2026-01-01 10:00:00"} for n in range(len(STATISTICS))]
    days[1], days[2], days[3] = {"DAY": "", "AT": None}, {}, {"day": "+10000-01-01", "At": "2026-01-01T10:00:00.5Z"}
    commit_actions(store, protocol, table_metadata, txn("run"), txn("é/1", 2, None), read_version=-1)
    commit_actions(store, *(add(f"f%20{n}", partition_values=days[n], stats=text) for n, text in enumerate(STATISTICS)))
    commit_actions(
        store, remove("f%200", partition_values=days[0]), remove("gone", deletion_timestamp_ms=1),
        add("f%200", deletion_vector=vector("v", 1), partition_values=days[0], tags={"k": None}, stats=STATISTICS[0]),
        add("g", partition_values={}, base_row_id=7, default_row_commit_version=2),
    )  # fmt: skip
    return store


def sorted_actions(data, kind):
    """The actions of a kind in a checkpoint file, as sorted texts; `data` are the bytes of the file."""
    checkpoint_rows = pq.read_table(pa.BufferReader(data))
    if kind not in checkpoint_rows.column_names:
        return []
    column = checkpoint_rows[kind].combine_chunks()
    # Years beyond Python's calendar are compared as numbers.
    return sorted(
        repr(_without_nulls(row)) for row in column.drop_null().cast(_with_integer_dates(column.type)).to_pylist()
    )


def _without_nulls(value):
    """A row without its null members, because a null struct and a struct of nulls have the same meaning."""
    if isinstance(value, dict):
        members = {key: _without_nulls(member) for key, member in value.items()}
        return {key: member for key, member in members.items() if member not in (None, {})}
    return value


def _with_integer_dates(data_type):
    """An Arrow type with integers instead of dates."""
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_with_integer_dates(field.type)) for field in data_type])
    return pa.int32() if pa.types.is_date32(data_type) else data_type


def comparable_type(data_type):
    """An Arrow type without the details that a writer may choose: nullability, and names inside lists and maps."""
    if pa.types.is_struct(data_type):
        return [(field.name, comparable_type(field.type)) for field in data_type]
    if pa.types.is_map(data_type):
        return "map", comparable_type(data_type.key_type), comparable_type(data_type.item_type)
    return ("list", comparable_type(data_type.value_type)) if pa.types.is_list(data_type) else str(data_type)


@pytest.mark.sample("v2")
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_spark_writes_the_same_checkpoint_rows_as_the_local_process(spark, tmp_path, policy):
    store = create_table(tmp_path, policy)
    local_checkpoint, state_before = encode_classic_checkpoint(load(store), now_ms=NOON_MS).data, state_of(load(store))
    hint = write_large_checkpoint(spark, load(store), now_ms=NOON_MS, actions_per_file=4)
    folder = SIDECAR_DIR if policy == "v2" else LOG_DIR
    parquet_files = sorted((tmp_path / folder).glob("*.parquet"))
    assert len(parquet_files) >= 3 and hint.parts == (None if policy == "v2" else len(parquet_files))
    for kind in ("add", "remove", *(() if policy == "v2" else ("protocol", "metaData", "txn"))):
        assert sorted(
            row for file in parquet_files for row in sorted_actions(file.read_bytes(), kind)
        ) == sorted_actions(local_checkpoint, kind)
        types = {repr(comparable_type(pq.read_schema(file).field(kind).type)) for file in parquet_files}
        assert types == {repr(comparable_type(pq.read_schema(pa.BufferReader(local_checkpoint)).field(kind).type))}
    for version in range(3):
        (tmp_path / commit_name(version)).unlink()
    assert load(store).segment.checkpoint.version == 2
    assert state_of(load(store))[:5] == state_before[:5]
    assert load(store).tombstones(["path"])["path"].to_pylist() == ["f%200"]  # the tombstone of "gone" has expired
    assert not list(tmp_path.glob("_deltalite_staging/*"))


@pytest.mark.campaign
def test_write_any_checkpoint_uses_spark_only_above_the_limit_of_files(spark, tmp_path):
    store = create_table(tmp_path, "classic")
    assert write_any_checkpoint(spark, load(store), NOON_MS).parts is None
    commit_actions(store, add("more"))
    assert write_any_checkpoint(spark, load(store), NOON_MS, large_files=3).parts == 2
    assert write_any_checkpoint(spark, load(store), NOON_MS, large_files=3) is None


@pytest.mark.campaign
def test_a_corrupt_checkpoint_is_ignored_and_replaced(spark, tmp_path):
    store = create_table(tmp_path, "classic")
    state_before = state_of(load(store))
    for version in (1, 2):
        (tmp_path / checkpoint_name(version)).write_bytes(b"PAR1 torn")
    hint = write_large_checkpoint(spark, load(store), now_ms=NOON_MS)
    assert (hint.parts, hint.num_of_add_files) == (2, len(state_before[4]))
    assert state_of(load(store))[:5] == state_before[:5]
    assert write_large_checkpoint(spark, load(store), now_ms=NOON_MS) is None


@pytest.mark.campaign
def test_a_table_with_the_v2_checkpoint_feature_never_gets_a_multi_part_checkpoint(spark, tmp_path):
    store = create_table(tmp_path, "v2")
    commit_actions(store, metadata({"delta.checkpointPolicy": "classic"}, SCHEMA, partition_columns=("day", "At")))
    with settings(spark, {"spark.sql.files.maxRecordsPerFile": "1"}):
        assert write_large_checkpoint(spark, load(store), now_ms=NOON_MS).parts is None
    assert load(store).segment.checkpoint.kind.name == "UUID_NAMED"


@pytest.mark.campaign
@pytest.mark.parametrize("name", table_names("read")[::96])
def test_a_golden_table_loads_the_same_from_a_checkpoint_that_spark_wrote(spark, golden, tmp_path, name):
    shutil.copytree(golden / "tables" / name, tmp_path / "t", symlinks=True)
    store = LocalLogStore(str(tmp_path / "t"))
    for old_checkpoint in (tmp_path / "t" / LOG_DIR).glob(f"{load(store).version:020d}.checkpoint*"):
        old_checkpoint.unlink()
    state_before = state_of(load(store))
    snapshot = Snapshot.load(store)
    write_large_checkpoint(spark, snapshot, now_ms=0)  # At this time, no tombstone has expired.
    reloaded = load(store)
    assert reloaded.segment.checkpoint.version == snapshot.version
    assert [repr(part) for part in state_of(reloaded)[:4]] == [repr(part) for part in state_before[:4]]
    assert reloaded.files.num_rows == snapshot.files.num_rows
