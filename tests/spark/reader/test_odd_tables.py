"""Reads and writes are correct in unusual tables and sessions: internal names, other settings, invalid values."""

from __future__ import annotations

import os
import re

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.commands.write import write
from deltalite.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    DeltaLiteError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceError,
    StorageError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.requests import Source, WriteRequest
from deltalite.storage.local import LocalLogStore
from tests.support.racing import run_before_commits

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.generated_code,
    pytest.mark.usefixtures("quick_plans"),
]


@pytest.fixture(scope="module")
def one_row_sources(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("one-row"))
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), f"{path}/part-0.parquet")
    return {"source": Source(format="parquet", path=path)}


@pytest.fixture
def write_query(spark, tmp_path, one_row_sources):
    def write_query(query, table="table", **parameters):
        return write(
            spark, WriteRequest(table=str(tmp_path / table), sources=one_row_sources, query=query, **parameters)
        )

    return write_query


def rows(tmp_path, table="table"):
    return sorted(map(str, DeltaTable(str(tmp_path / table)).to_arrow().to_pylist()))


@pytest.mark.sample("struct('a' AS file_path) AS _metadata", "'a' AS __deltalite_file")
@pytest.mark.parametrize(
    "column",
    ["struct('a' AS file_path) AS _metadata", "'a' AS _metadata", "'a' AS __deltalite_file", "'a' AS __deltalite_at"],
)
def test_columns_may_have_names_that_spark_or_the_library_use_internally(write_query, tmp_path, column):
    write_query(f"SELECT * FROM VALUES (1), (2) AS t(id) CROSS JOIN (SELECT {column})")
    write_query(f"SELECT 1 AS id, {column}", mode="overwrite", replace_where="id = 1")
    assert len(rows(tmp_path)) == 2
    write_query(f"SELECT 3 AS id, {column}", table="parts", partition_by=("id",))
    write_query(f"SELECT 3 AS id, {column}", table="parts", mode="overwrite", replace_where="id = 3")
    assert len(rows(tmp_path, "parts")) == 1


def test_an_overwrite_without_data_change_counts_the_rows_if_statistics_are_missing(write_query, tmp_path):
    write_query("SELECT explode(array(1, 2, 3)) AS id")
    commit = tmp_path / "table" / commit_name(0)
    commit.write_text(commit.read_text().replace('"stats":', '"other":'))
    assert DeltaTable(str(tmp_path / "table")).files()["num_records"].to_pylist() == [None]
    with pytest.raises(ConstraintViolationError, match="3 rows would become 1"):
        write_query("SELECT 7 AS id", mode="overwrite", data_change=False)
    assert len(rows(tmp_path)) == 3


@pytest.mark.parametrize(
    ("day", "out_of_range", "text"),
    [
        ("DATE'2026-01-02'", "DATE'+20260-01-02'", "+20260-01-02"),
        ("TIMESTAMP'2026-01-02 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59-05:00'", "+10000-01-01T04:59:59.000000Z"),
        ("TIMESTAMP_NTZ'2026-01-02'", "TIMESTAMP_NTZ'-0001-01-02 03:04:05.06'", "-0001-01-02 03:04:05.060000"),
    ],
    ids=["date", "timestamp", "timestamp_ntz"],
)
def test_a_partition_value_outside_the_years_1_to_9999_is_rejected(write_query, tmp_path, day, out_of_range, text):
    write_query(f"SELECT 1 AS id, {day} AS day", partition_by=("day",))
    with pytest.raises(
        ConstraintViolationError, match=rf"value '{re.escape(text)}' in the partition column 'day'.* years 1 to 9999"
    ):
        write_query(f"SELECT 2 AS id, {out_of_range} AS day")
    assert len(rows(tmp_path)) == 1


def test_a_binary_partition_value_that_is_not_utf8_is_rejected(write_query, tmp_path):
    """delta-rs creates such tables; this library does not. Partition values are text in the log and in Spark."""
    binary_rows = pa.table({"id": [1], "p": pa.array([b"a"])})
    deltalake.write_deltalake(str(tmp_path / "table"), binary_rows, partition_by=["p"])
    write_query("SELECT 2L AS id, X'C3BC' AS p")
    with pytest.raises(ConstraintViolationError, match="not UTF-8"):
        write_query("SELECT 3L AS id, X'FF' AS p")
    columns_read = DeltaTable(str(tmp_path / "table")).to_arrow().sort_by("id").to_pydict()
    assert (columns_read["id"], columns_read["p"][1]) == ([1, 2], b"\xc3\xbc")


def test_leftover_files_of_task_attempts_are_not_committed(spark, write_query, tmp_path):
    setting = "mapreduce.fileoutputcommitter.cleanup.skipped"
    spark.conf.set(setting, "true")
    try:
        write_query("SELECT 1 AS id, 2 AS p", partition_by=("p",))
    finally:
        spark.conf.unset(setting)
    assert rows(tmp_path) == ["{'id': 1, 'p': 2}"]


def test_a_failed_commit_deletes_its_data_files(write_query, tmp_path, monkeypatch):
    write_query("SELECT 1 AS id")
    files_before = sorted(os.listdir(tmp_path / "table"))

    def raise_disk_full(self, name, data):
        raise StorageError("The disk is full.", remedy="Make room.")

    monkeypatch.setattr(LocalLogStore, "write_if_absent", raise_disk_full)
    for _ in range(2):
        with pytest.raises(StorageError, match="disk is full"):
            write_query("SELECT 2 AS id")
    assert sorted(os.listdir(tmp_path / "table")) == files_before


def test_optimize_write_does_not_depend_on_the_sessions_adaptive_execution(spark, write_query, tmp_path):
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        write_query(
            "SELECT /*+ REPARTITION(8) */ id, id % 3 AS p FROM range(300)",
            partition_by=("p",),
            optimize_write=True,
        )
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert DeltaTable(str(tmp_path / "table")).files().num_rows == 3


def test_a_source_path_that_links_to_the_table_counts_as_a_self_read(spark, write_query, tmp_path, monkeypatch):
    write_query("SELECT 1 AS id")
    (tmp_path / "link").symlink_to(tmp_path / "table")
    table = str(tmp_path / "table")
    sources = {"source": Source(format="delta", path=str(tmp_path / "link"))}
    run_before_commits(monkeypatch, lambda: write_query("SELECT 5 AS id"))
    query = "SELECT max(id) + 1 AS id FROM source"
    with pytest.raises(ConcurrentAppendException):
        write(spark, WriteRequest(table=table, sources=sources, query=query, conflict_retries=0))
    assert rows(tmp_path) == ["{'id': 1}", "{'id': 5}"]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT (SELECT * FROM VALUES (1), (2) AS t(x)) AS id", SourceError, "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("SELECT map('a', n, upper('a'), n, 'A', n) AS m FROM source", SourceError, "DUPLICATED_MAP_KEY"),
        ("SELECT CAST(raise_error('no good') AS INT) AS id", DeltaLiteError, "no good"),
        ("SELECT struct() AS s", SchemaMismatchError, "struct without members"),
        ("DROP VIEW source", InvalidRequestError, "no columns to write"),
    ],
)
def test_a_query_that_can_never_succeed_raises_an_error_that_is_not_retryable(
    write_query, tmp_path, query, error, message
):
    with pytest.raises(error, match=message) as error_info:
        write_query(query)
    assert not error_info.value.retryable
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("partition_by", [None, ("code",)])
def test_the_error_names_a_replace_where_that_spark_cannot_compute(write_query, tmp_path, partition_by):
    write_query("SELECT 1 AS id, 'x' AS code", partition_by=partition_by)
    with pytest.raises(InvalidRequestError, match="replace_where cannot be computed"):
        write_query("SELECT 1 AS id, '5' AS code", mode="overwrite", replace_where="cast(code AS int) > 4")
    assert len(rows(tmp_path)) == 1


def test_source_names_that_differ_only_in_case_are_rejected(one_row_sources):
    with pytest.raises(InvalidRequestError, match="differ only in case: a, A"):
        WriteRequest(
            table="/t", sources={"a": one_row_sources["source"], "A": one_row_sources["source"]}, query="SELECT 1 AS x"
        )
