"""A scan reads exactly the files of the log with their logged partition values. The names of directories do not count.

Tests with the fixture `relation_kind` read through Spark's internals and through its public API. Many tests compare the
rows with those of the reader that needs no Spark.
"""

from __future__ import annotations

import datetime as dt
import shutil
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltalite.spark as delta
from deltalite.errors import CorruptDataFileError, SourceError, TableNotFoundError, VersionNotFoundError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.spark.runtime.session import settings
from deltalite.spark.scan import relation_files
from deltalite.spark.scan.native_relation import NativeRelationError, native_relation
from deltalite.storage.opening import open_store
from tests.support.tables import (
    actions_of,
    data_files,
    row_addresses,
    rows,
    schema_json,
    sorted_rows,
    values,
    write_data_file,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.generated_code]

UNUSUAL = ["a/b", "50%", "50%25", "k=v", "it's", "Łódź 🚲", " ", "a+b", "a b", "#?&", "..", "[x]{y}*", 'back\\slash"']


def read(spark, table, **version):
    return sorted_rows(delta.read(spark, str(table), **version).collect())


@pytest.fixture(scope="module")
def unusual_table(spark, tmp_path_factory):
    """A table with null, empty and unusual partition values, and with unusual column names and path."""
    table = tmp_path_factory.mktemp("t") / "a b%20c=d" / "Łódź #[1]{2}*"
    texts = [f"'{text}'".replace("\\", "\\\\").replace("it's", "it\\'s") for text in UNUSUAL]
    lines = [f"{number}, {text}, {number % 2}" for number, text in enumerate(texts)]
    query = values("`no.`, `part of.it`, `x=y %`", *lines, "100, NULL, NULL", "101, '', 0")
    write_rows(spark, table, query, partition_by=("part of.it", "x=y %"))
    return table


def test_unusual_partition_values_column_names_and_paths_are_read(spark, unusual_table, relation_kind):
    expected = [(number, text, number % 2) for number, text in enumerate(UNUSUAL)]
    expected = sorted_rows([*expected, (100, None, None), (101, None, 0)])
    assert read(spark, unusual_table) == expected
    assert rows(unusual_table) == expected
    frame = delta.read(spark, str(unusual_table))
    assert frame.columns == ["no.", "part of.it", "x=y %"]
    for number, text in enumerate(UNUSUAL):
        assert [row[0] for row in frame.where(frame["`part of.it`"] == text).collect()] == [number]
    assert {row[0] for row in frame.where("`part of.it` IS NULL").collect()} == {100, 101}


def test_each_row_has_a_unique_address_with_the_logged_path_of_its_file(spark, unusual_table, relation_kind):
    snapshot = Snapshot.load(open_store(str(unusual_table)))
    addresses = row_addresses(spark, unusual_table)
    assert {file for file, _ in addresses} == set(snapshot.files["path"].to_pylist())
    assert len(set(addresses)) == len(addresses) == len(UNUSUAL) + 2


def test_only_files_of_the_log_are_read(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, day", "1, 'a'", "2, 'b'"), partition_by=("day",))
    write_rows(spark, table, values("id, day", "3, 'b'"), mode="overwrite")
    stray = next(name for name in data_files(table) if name.startswith("day=a"))
    shutil.copy(table / stray, table / "day=b" / "part-00099-stray.c000.snappy.parquet")
    shutil.copy(table / stray, table / "stray.parquet")
    assert read(spark, table) == [(3, "b")]
    assert read(spark, table, version_as_of=0) == [(1, "a"), (2, "b")]
    assert read(spark, f"{table}@v0") == [(1, "a"), (2, "b")]


def test_two_versions_of_a_table_in_one_query_are_read_separately(spark, tmp_path, relation_kind):
    """Spark treats equal relations as one relation. It compares only the root paths of these relations."""
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"))
    write_rows(spark, table, values("id", "2"), mode="overwrite")
    version_0, version_1 = (delta.read(spark, str(table), version_as_of=version) for version in (0, 1))
    assert [tuple(row) for row in version_0.crossJoin(version_1).collect()] == [(1, 2)]
    version_0.cache()
    assert (version_0.count(), sorted_rows(delta.read(spark, str(table)).collect())) == (1, [(2,)])
    version_0.unpersist()


def test_partition_values_come_from_the_log(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    file_with_other_values = write_data_file(table, "day=2020-01-01/kind=x/part-1.parquet", id=[1])
    file_with_values = write_data_file(table, "day=2020-01-02/kind=x/part-2.parquet", id=[2])
    file_without_values = write_data_file(table, "Zq/part-3.parquet", id=[3])
    adds = [
        file_with_other_values | {"partitionValues": {"day": "2026-01-01", "kind": "y"}},
        file_with_values | {"partitionValues": {"day": None, "kind": ""}},
        file_without_values | {"partitionValues": {"day": "2026-01-03", "kind": "z"}},
    ]
    fields = (("id", "long"), ("day", "date"), ("kind", "string"))
    write_foreign_table(table, schema_json(*fields), adds, ("day", "kind"))
    expected = sorted_rows([(1, dt.date(2026, 1, 1), "y"), (2, None, None), (3, dt.date(2026, 1, 3), "z")])
    assert read(spark, table) == expected
    assert rows(table) == expected
    assert [r.id for r in delta.read(spark, str(table)).where("day = DATE'2026-01-03'").collect()] == [3]


def test_an_unpartitioned_table_ignores_directories_that_look_like_partitions(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = [
        write_data_file(table, name, id=[n])
        for n, name in enumerate(["a.parquet", "id=7/b.parquet", "x=1/y=2/c.parquet"])
    ]
    write_foreign_table(table, schema_json(("id", "long")), adds)
    assert read(spark, table) == [(0,), (1,), (2,)]


def test_files_of_one_directory_may_have_different_partition_values(spark, tmp_path, relation_kind):
    """Random file prefixes cause this layout. The scan assigns the values by file name."""
    table = tmp_path / "t"
    adds = [
        write_data_file(table, "p q/1 %20.parquet", id=[1, 2]) | {"partitionValues": {"day": "a"}},
        write_data_file(table, "p q/2.parquet", id=[3]) | {"partitionValues": {"day": "b+"}},
        write_data_file(table, "p q/3.parquet", id=[4]) | {"partitionValues": {"day": None}},
    ]
    write_foreign_table(table, schema_json(("day", "string"), ("id", "long")), adds, ("day",))
    assert read(spark, table) == sorted_rows([("a", 1), ("a", 2), ("b+", 3), (None, 4)])
    assert [r.id for r in delta.read(spark, str(table)).where("day = 'b+'").collect()] == [3]


def test_files_with_absolute_paths_are_read(spark, tmp_path, relation_kind):
    """The log of a shallow clone has absolute paths."""
    table, elsewhere = tmp_path / "t", tmp_path / "else where"
    with_scheme = write_data_file(elsewhere, "day=x/1.parquet", id=[1])
    without_scheme = write_data_file(elsewhere, "2.parquet", id=[2])
    adds = [
        with_scheme | {"path": f"file://{quote(str(elsewhere))}/day=x/1.parquet", "partitionValues": {"day": "a"}},
        without_scheme | {"path": f"{quote(str(elsewhere))}/2.parquet", "partitionValues": {"day": "b"}},
        write_data_file(table, "day=c/3.parquet", id=[3]) | {"partitionValues": {"day": "c"}},
    ]
    write_foreign_table(table, schema_json(("id", "long"), ("day", "string")), adds, ("day",))
    assert read(spark, table) == [(1, "a"), (2, "b"), (3, "c")]


def test_spark_prunes_partitions_and_pushes_down_filters(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(
        spark, table, values("id, name, day", "1, 'x', 'a'", "2, 'y', 'b'", "3, 'z', 'c'"), partition_by=("day",)
    )
    frame = delta.read(spark, str(table)).where("day = 'b' AND id > 1").select("id")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(day" in plan and "(day" in plan.split("PartitionFilters")[1].split("]")[0]
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in plan
    assert "ReadSchema: struct<id:int>" in plan
    assert [tuple(r) for r in frame.collect()] == [(2,)]
    scans = frame._jdf.queryExecution().executedPlan().collectLeaves().toString()
    assert frame.inputFiles() and "InMemoryFileIndex" in scans
    # Spark opens one file of three.
    opened_files = {
        row[0] for row in delta.read(spark, str(table)).where("day = 'b'").selectExpr("input_file_name()").collect()
    }
    assert len(opened_files) == 1


@pytest.mark.sample("Asia/Kolkata")
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamp_partition_values_do_not_depend_on_the_session_time_zone(spark, tmp_path, relation_kind, zone):
    """The values include hours that the local clock repeats or skips."""
    table = tmp_path / "t"
    moments = [
        dt.datetime(2026, 3, 8, 2, 30, tzinfo=dt.UTC),  # In New York, 02:30 does not exist as a local time of this day.
        dt.datetime(2026, 3, 8, 7, 30, 0, 123456, tzinfo=dt.UTC),
        dt.datetime(2026, 11, 1, 5, 30, tzinfo=dt.UTC),  # the first 01:30 in New York
        dt.datetime(2026, 11, 1, 6, 30, tzinfo=dt.UTC),  # the second 01:30 in New York
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    ]
    lines = [f"{n}, TIMESTAMP'{m:%Y-%m-%d %H:%M:%S.%f}Z'" for n, m in enumerate(moments)]
    local = "2026-03-08 02:30:00.5"  # A time without a zone. The clock of New York skips it.
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        query = f"SELECT *, TIMESTAMP_NTZ'{local}' AS local FROM ({values('id, at', *lines)})"
        write_rows(spark, table, query, partition_by=("at", "local"))
        rows_read = delta.read(spark, str(table)).selectExpr("id", "unix_micros(at)", "CAST(local AS STRING)").collect()
        matching_rows = delta.read(spark, str(table)).where("at = TIMESTAMP'2026-11-01 06:30:00Z'").collect()
    assert sorted_rows(rows_read) == [(n, round(m.timestamp() * 1_000_000), local) for n, m in enumerate(moments)]
    assert [row.id for row in matching_rows] == [3]
    assert [row[1] for row in rows(table)] == moments
    logged_values = {add["partitionValues"]["at"] for add in actions_of(table, 0)["add"]}
    assert logged_values == {f"{m:%Y-%m-%dT%H:%M:%S.%f}Z" for m in moments}
    assert {add["partitionValues"]["local"] for add in actions_of(table, 0)["add"]} == {"2026-03-08 02:30:00.500000"}


def test_a_missing_data_file_is_an_error_even_if_the_session_ignores_missing_files(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1", "2"))
    missing_file = min(data_files(table))
    (table / missing_file).unlink()
    with (
        settings(spark, {"spark.sql.files.ignoreMissingFiles": "true"}),
        pytest.raises(Exception, match=missing_file),
    ):
        delta.read(spark, str(table)).collect()
    with pytest.raises((CorruptDataFileError, SourceError), match=missing_file) as error_info:
        write_rows(spark, tmp_path / "copy", sources={"source": Source(format="delta", path=str(table))})
    assert "vacuum" in error_info.value.remedy.lower()
    assert not (tmp_path / "copy").exists()


def test_a_corrupt_data_file_is_an_error_even_if_the_session_ignores_corrupt_files(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"))
    (corrupt_file,) = data_files(table)
    (table / corrupt_file).write_bytes(b"x" * (table / corrupt_file).stat().st_size)
    with (
        settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}),
        pytest.raises(Exception, match=corrupt_file),
    ):
        delta.read(spark, str(table)).collect()


@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_data_files_with_hidden_names_are_read(spark, tmp_path, partition_by):
    """Spark's index drops names that begin with `_` or `.`, and its public reader has no option against this."""
    table = tmp_path / "t"
    names = ["_1.parquet", ".2.parquet", "a/_3 %.parquet", "a/4.parquet"]
    adds = [
        write_data_file(table, name, id=[n]) | {"partitionValues": {"day": f"d{n}"}} for n, name in enumerate(names)
    ]
    write_foreign_table(table, schema_json(("id", "long"), ("day", "string")), adds, partition_by)
    expected = [(n, f"d{n}" if partition_by else None) for n in range(4)]
    assert read(spark, table) == expected
    snapshot = Snapshot.load(open_store(str(table)))
    assert {file for file, _ in row_addresses(spark, table)} == set(snapshot.files["path"].to_pylist())
    if partition_by:
        frame = delta.read(spark, str(table)).where("day = 'd1'")
        assert [row.id for row in frame.collect()] == [1]
        assert len(set(frame.selectExpr("input_file_name()").collect())) == 1


def test_data_files_with_hidden_names_are_rejected_if_sparks_internals_have_changed(spark, tmp_path, monkeypatch):
    def raise_native_relation_error(*_arguments, **_options):
        raise NativeRelationError("changed")

    monkeypatch.setattr(relation_files, "native_relation", raise_native_relation_error)
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "long")), [write_data_file(table, "_part-1.parquet", id=[1])])
    with pytest.raises(CorruptDataFileError, match="_part-1"):
        delta.read(spark, str(table))
    assert rows(table) == [(1,)]


def test_a_disabled_file_status_cache_makes_the_scan_use_sparks_public_api(spark, tmp_path):
    """Without its cache, Spark's internal index would list the directory instead of the files of the log."""
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"))
    (removed_file,) = data_files(table)
    write_rows(spark, table, values("id", "2"), mode="overwrite")
    (table / removed_file).rename(table / "kept-by-nobody.parquet")
    outside = tmp_path / "outside.parquet"
    (current_file,) = data_files(table) - {"kept-by-nobody.parquet"}
    shutil.copy(table / current_file, outside)
    with settings(spark, {"spark.sql.hive.filesourcePartitionFileCacheSize": "0"}):
        assert read(spark, table) == [(2,)]
        (table / "kept-by-nobody.parquet").unlink()
        (table / current_file).rename(table / "part-0-stray.parquet")
        write_foreign_table(
            tmp_path / "u", schema_json(("id", "integer")), [{"path": str(outside), "size": outside.stat().st_size}]
        )
        pq.write_table(pa.table({"id": pa.array([9], pa.int32())}), tmp_path / "u" / "stray.parquet")
        assert read(spark, tmp_path / "u") == [(2,)]


def test_columns_missing_from_a_file_are_null_and_column_names_ignore_case(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = [
        write_data_file(table, "1.parquet", ID=[1], extra=["x"]),
        write_data_file(table, "2.parquet", name=["n"], id=[2]),
    ]
    write_foreign_table(table, schema_json(("id", "long"), ("Name", "string"), ("s", json_struct())), adds)
    assert read(spark, table) == sorted_rows([(1, None, None), (2, "n", None)])


def json_struct():
    return {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}]}


def test_an_empty_table_keeps_its_schema_and_a_missing_version_or_table_is_an_error(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, day", "1, DATE'2026-01-01'") + " WHERE id > 1")
    frame = delta.read(spark, str(table))
    assert (frame.collect(), frame.columns, frame.schema["day"].dataType.simpleString()) == ([], ["id", "day"], "date")
    with pytest.raises(VersionNotFoundError):
        delta.read(spark, str(table), version_as_of=1)
    with pytest.raises(TableNotFoundError):
        delta.read(spark, str(tmp_path))


@pytest.mark.campaign
def test_ten_thousand_files_are_one_relation(spark, tmp_path):
    from pyspark.sql import types as t

    from deltalite.spark.scan.native_relation import ListedFile

    files = [
        ListedFile(uri=f"file:{tmp_path}/f {n}.parquet", size_bytes=2**40 + n, modified_ms=0) for n in range(10_000)
    ]
    schema = t.StructType([t.StructField("id", t.LongType())])
    relation = native_relation(
        spark,
        root_uri=f"file:{tmp_path}",
        files=files,
        data_schema=schema,
    )
    assert len(relation.inputFiles()) == 10_000
    size = relation._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(str(size)) == sum(file.size_bytes for file in files)
