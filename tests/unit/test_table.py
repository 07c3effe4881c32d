"""`DeltaTable` on tables of other engines, and on hand-made tables with chosen times and faults."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.errors import (
    CorruptDataFileError,
    CorruptLogError,
    InvalidRequestError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    add,
    append_files,
    commit_actions,
    load,
    metadata,
    newest_version,
    remove,
)


@pytest.fixture(scope="module")
def partitioned_table_path(golden):
    """The path of a golden table that is partitioned by `letter`. Each of its two versions adds three files."""
    return str(golden / "tables" / "dat" / "basic_partitioned")


@pytest.fixture
def small_table_store(tmp_path):
    """A local table: version 0 is empty, and versions 1 to 3 each add a file of one row, `f1` to `f3`.

    The statistics of `f2` and `f3` wrongly state two and three rows.
    """
    store = LocalLogStore(str(tmp_path / "a b=ü%"))
    table_metadata = metadata({"team": "lake"}, partition_columns=("day",), name="orders", created_time_ms=NOON_MS)
    commit_actions(store, PROTOCOL, table_metadata, read_version=-1)
    for number, day in enumerate(["x", "y z/%", None], 1):
        name = f"f{number} %20.parquet"
        pq.write_table(pa.table({"id": [number]}), Path(store.root) / name)
        commit_actions(
            store, add(f"f{number}%20%2520.parquet", partition_values={"day": day}, stats=f'{{"numRecords":{number}}}')
        )
    for version in range(4):
        os.utime(Path(store.root) / commit_name(version), ns=(0, (NOON_MS + version * 1000) * 1_000_000))
    return store


def test_a_table_has_its_version_schema_and_properties(partitioned_table_path):
    table = DeltaTable(partitioned_table_path)
    assert table.version == 1
    assert table.schema == pa.schema({"letter": pa.string(), "number": pa.int64(), "a_float": pa.float64()})
    assert table.metadata.partition_columns == ("letter",)
    assert (table.protocol.min_reader_version, table.protocol.min_writer_version) == (1, 2)
    assert repr(table) == f"DeltaTable({partitioned_table_path!r}, version=1)"


def test_to_arrow_selects_columns_and_filters_rows(partitioned_table_path):
    table = DeltaTable(partitioned_table_path)
    assert table.to_arrow().num_rows == 6
    assert table.to_arrow(columns=["NUMBER", "letter"]).column_names == ["number", "letter"]
    selected = table.to_arrow(columns=["number"], filter=[("letter", "=", "a")])
    numbers_of_a = [row["number"] for row in table.to_arrow().to_pylist() if row["letter"] == "a"]
    assert sorted(selected["number"].to_pylist()) == sorted(numbers_of_a)
    assert sum(batch.num_rows for batch in table.to_batches()) == 6
    empty = table.to_arrow(filter=[("letter", "=", "zzz")])
    assert (empty.num_rows, empty.schema) == (0, table.schema)
    with pytest.raises(InvalidRequestError, match="nowhere"):
        table.to_arrow(columns=["nowhere"])
    for read in (table.to_arrow, table.to_batches):
        with pytest.raises(InvalidRequestError, match="columns is the text 'number', not a list"):
            read(columns="number")


@pytest.mark.parametrize("address_format", ["{}", "{}/", "file:{}", "file://{}"])
@pytest.mark.parametrize(("options", "file_count"), [({}, 6), ({"version": 0}, 3), ({"version": 1}, 6)])
def test_a_version_has_its_files(partitioned_table_path, address_format, options, file_count):
    assert DeltaTable(address_format.format(partitioned_table_path), **options).files().num_rows == file_count


@pytest.mark.parametrize(("suffix", "version"), [("@v0", 0), ("@v1/", 1)])
def test_a_path_may_name_its_version(partitioned_table_path, suffix, version):
    assert DeltaTable(partitioned_table_path + suffix).version == version


def test_the_arrow_table_of_files_has_decoded_paths_and_the_facts_of_the_log(small_table_store):
    files = DeltaTable(small_table_store.root).files()
    assert files.schema.names == [
        "path", "partition_values", "size_bytes", "modification_time_ms", "num_records", "stats", "deletion_vector",
    ]  # fmt: skip
    rows = sorted(files.to_pylist(maps_as_pydicts="strict"), key=lambda row: row["path"])
    assert [row["path"] for row in rows] == [f"f{n} %20.parquet" for n in (1, 2, 3)]
    assert [row["partition_values"] for row in rows] == [{"day": "x"}, {"day": "y z/%"}, {"day": None}]
    assert [row["num_records"] for row in rows] == [1, 2, 3]
    assert rows[0]["size_bytes"] == 10 and rows[0]["modification_time_ms"] == NOON_MS
    assert DeltaTable(small_table_store.root).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "day": "x"}, {"id": 2, "day": "y z/%"}, {"id": 3, "day": None},
    ]  # fmt: skip


STATS = [
    ('{"numRecords":5}', 5), (' { "numRecords" : 5 , "minValues":{}}', 5), ('{"minValues":{"a":1},"numRecords":7}', 7),
    ('{"minValues":{"a":{"numRecords":1}},"numRecords":7}', 7), ('{"minValues":{"numRecords":1}}', None), ("{}", None),
    ("", None), ("{", None), ("null", None), ('{"numRecords":"5"}', None), ('{"numRecords":null}', None),
    ('{"numRecords":1.5}', None), ('{"numRecords":-1}', None), ('{\n"numRecords":\n3}', 3), (None, None),
    ('{"numRecords":12345678901234567890123456789012345678901234567890}', None),
    ('{"minValues":{"' + "ü" * 80 + '":1},"numRecords":9}', 9),
]  # fmt: skip


@pytest.mark.parametrize(("stats", "count"), STATS)
def test_the_number_of_records_comes_from_the_statistics_or_is_null(small_table_store, stats, count):
    commit_actions(small_table_store, add("odd", stats=stats, partition_values={"day": None}))
    files = DeltaTable(small_table_store.root).files()
    assert dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))["odd"] == count


@pytest.mark.parametrize("stats", ['{"numRecords":0}', '{"numRecords":0,"nullCount":{"id":0}}'])
def test_a_filter_finds_rows_of_files_whose_statistics_say_zero_rows(small_table_store, stats):
    pq.write_table(pa.table({"id": [7, 8, 9]}), Path(small_table_store.root) / "uncounted.parquet")
    commit_actions(small_table_store, add("uncounted.parquet", stats=stats, partition_values={"day": "x"}))
    table = DeltaTable(small_table_store.root)
    for filters in ([("id", ">=", 7)], [("id", "in", [7, 8, 9])], [("day", "=", "x"), ("id", "!=", 1)]):
        assert sorted(table.to_arrow(filter=filters)["id"].to_pylist()) == [7, 8, 9]


def test_history_lists_commits_up_to_the_version_newest_first_with_times_in_utc(small_table_store):
    history = DeltaTable(small_table_store.root, version=2).history()
    assert [entry["version"] for entry in history] == [2, 1, 0]
    assert {entry["operation"] for entry in history} == {"WRITE"}
    assert history[0]["timestamp"] == datetime.fromtimestamp((NOON_MS + 2000) / 1000, tz=UTC)
    assert [entry["version"] for entry in DeltaTable(small_table_store.root).history(limit=2)] == [3, 2]
    assert DeltaTable(small_table_store.root).history(limit=0) == []
    with pytest.raises(InvalidRequestError, match="-1"):
        DeltaTable(small_table_store.root).history(limit=-1)


def test_the_timestamp_of_a_history_entry_selects_its_version(tmp_path):
    store = LocalLogStore(str(tmp_path))
    commit_actions(store, PROTOCOL, metadata(), read_version=-1)
    append_files(store, 20)
    history = DeltaTable(store.root).history()
    assert [DeltaTable(store.root, timestamp=entry["timestamp"]).version for entry in history] == list(
        range(20, -1, -1)
    )


def test_a_commit_without_provenance_or_with_an_invalid_time_has_the_time_of_its_file(small_table_store):
    for version, body in ((4, {"add": None}), (5, {"commitInfo": {"timestamp": "noon"}})):
        file = Path(small_table_store.root) / commit_name(version)
        file.write_text(json.dumps(body))
        os.utime(file, ns=(0, (NOON_MS + version * 1000) * 1_000_000))
    newest_two = DeltaTable(small_table_store.root).history(limit=2)
    times = [(e["version"], e["timestamp"].timestamp() * 1000 - NOON_MS) for e in newest_two]
    assert times == [(5, 5000), (4, 4000)]


def test_detail_has_the_field_names_of_spark(small_table_store):
    detail = DeltaTable(small_table_store.root).detail()
    assert detail == {
        "format": "delta", "id": "t", "name": "orders", "description": None, "location": small_table_store.root,
        "createdAt": datetime.fromtimestamp(NOON_MS / 1000, tz=UTC),
        "lastModified": datetime.fromtimestamp((NOON_MS + 3000) / 1000, tz=UTC),
        "partitionColumns": ["day"], "numFiles": 3, "sizeInBytes": 30, "properties": {"team": "lake"},
        "minReaderVersion": 1, "minWriterVersion": 2, "tableFeatures": ["appendOnly", "invariants"],
    }  # fmt: skip
    empty = DeltaTable(small_table_store.root, version=0)
    assert (empty.detail()["numFiles"], empty.detail()["sizeInBytes"]) == (0, 0)
    assert (empty.to_arrow().num_rows, empty.files().num_rows) == (0, 0)


def test_an_address_may_be_a_path_object(small_table_store):
    assert DeltaTable(Path(small_table_store.root)).version == 3


@pytest.mark.parametrize("limit", [-1, "1", 1.5, True])
def test_a_limit_that_is_negative_or_not_an_int_is_rejected(small_table_store, limit):
    with pytest.raises(InvalidRequestError, match="limit"):
        DeltaTable(small_table_store.root).history(limit)


@pytest.mark.parametrize("absurd_ms", [2**62, -(2**62), 253_402_300_800_000])
def test_detail_omits_a_time_beyond_the_calendar_of_python(small_table_store, absurd_ms):
    first_commit = Path(small_table_store.root) / commit_name(0)
    first_commit.write_text(first_commit.read_text().replace(f'"createdTime":{NOON_MS}', f'"createdTime":{absurd_ms}'))
    assert DeltaTable(small_table_store.root).detail()["createdAt"] is None


@pytest.mark.parametrize(
    ("moment", "version"),
    [
        ("2023-11-14T22:13:20Z", 0),
        ("2023-11-14T22:13:20.999Z", 0),
        ("2023-11-14T22:13:21Z", 1),
        ("2023-11-14T23:13:22+01:00", 2),
        (datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC), 3),
        (date(2024, 1, 1).isoformat(), 3),
    ],
)
def test_a_timestamp_selects_the_version_that_was_current_then(small_table_store, moment, version):
    assert DeltaTable(small_table_store.root, timestamp=moment).version == version
    if isinstance(moment, str) and moment.endswith("20.999Z"):
        assert DeltaTable(small_table_store.root + "@20231114221320999").version == version


@pytest.mark.parametrize("moment", ["2023-11-14T22:13:19.999Z", "2999-01-01"])
def test_a_timestamp_before_the_table_or_in_the_future_is_rejected(small_table_store, moment):
    with pytest.raises(TimestampOutOfRangeError):
        DeltaTable(small_table_store.root, timestamp=moment)


def test_a_table_object_stays_at_its_version(small_table_store):
    table = DeltaTable(small_table_store.root)
    commit_actions(small_table_store, remove("f1%20%2520.parquet"))
    assert (table.version, table.files().num_rows) == (3, 3)
    assert (DeltaTable(small_table_store.root).version, DeltaTable(small_table_store.root).files().num_rows) == (4, 2)
    assert load(small_table_store).tombstones(["path"]).num_rows == 1


def test_a_missing_table_or_version_raises_a_typed_error(small_table_store, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "missing", tmp_path / "file", tmp_path / "empty"):
        with pytest.raises(TableNotFoundError, match="no Delta table") as caught:
            DeltaTable(str(path))
        assert str(path) in str(caught.value)
    for version in (-1, 4, 10**12):
        with pytest.raises(VersionNotFoundError, match="its newest version is 3"):
            DeltaTable(small_table_store.root, version=version)


def test_a_damaged_log_raises_a_typed_error(small_table_store, tmp_path):
    gap = tmp_path / "gap"
    shutil.copytree(small_table_store.root, gap)
    (gap / commit_name(1)).unlink()
    with pytest.raises(VersionGapError, match="commit 1 is missing"):
        DeltaTable(str(gap))
    assert DeltaTable(str(gap), version=0).version == 0
    (Path(small_table_store.root) / commit_name(3)).write_text('{"add": {"path"')
    with pytest.raises(CorruptLogError, match=commit_name(3)):
        DeltaTable(small_table_store.root)
    assert DeltaTable(small_table_store.root, version=2).to_arrow().num_rows == 2


def test_the_error_names_a_missing_or_damaged_data_file(small_table_store):
    data = Path(small_table_store.root) / "f2 %20.parquet"
    data.write_bytes(data.read_bytes()[:-10])
    with pytest.raises(CorruptDataFileError, match="f2 %20"):
        DeltaTable(small_table_store.root).to_arrow()
    data.unlink()
    with pytest.raises(CorruptDataFileError, match="f2 %20"):
        DeltaTable(small_table_store.root).to_arrow()
    assert DeltaTable(small_table_store.root).to_arrow(filter=[("day", "=", "x")]).num_rows == 1


def test_names_of_partition_columns_are_case_insensitive(tmp_path):
    store = LocalLogStore(str(tmp_path))
    commit_actions(store, PROTOCOL, metadata(partition_columns=("DAY",)), read_version=-1)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    commit_actions(store, add("f.parquet", partition_values={"DAY": "x"}))
    assert DeltaTable(str(tmp_path)).to_arrow().to_pylist() == [{"id": 1, "day": "x"}]
    assert DeltaTable(str(tmp_path)).to_arrow(filter=[("day", "=", "x")]).num_rows == 1


def test_a_checkpoint_does_not_change_the_files_of_a_table(small_table_store):
    table_before = DeltaTable(small_table_store.root)
    write_checkpoint(load(small_table_store, 2), now_ms=NOON_MS)
    table_after = DeltaTable(small_table_store.root)
    assert sorted(map(str, table_before.files().to_pylist())) == sorted(map(str, table_after.files().to_pylist()))
    append_files(small_table_store, 1)
    assert newest_version(small_table_store) == 4
