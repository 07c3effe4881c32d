"""A file is loaded once across runs, retries and concurrent runs, and again after a change or with `force`."""

from __future__ import annotations

import gzip
import json
import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltalite.commands.copy.plan as plan_module
import deltalite.commands.write.attempt as attempt_module
from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.errors import (
    AuditFailedError,
    ConstraintViolationError,
    DeltaLiteError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
)
from deltalite.protocol.file_names import LOADED_FILES_DIR
from deltalite.requests import Audit, RestoreRequest, Source, TableRequest
from tests.support.copying import copy_files, loaded_names, write_bytes, write_file
from tests.support.racing import run_before_commits
from tests.support.tables import delta_rs_rows, folder_content, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture
def landing(tmp_path):
    """A folder with two CSV files."""
    folder = tmp_path / "landing"
    write_file(folder, "a.csv", "id,name\n1,one\n", second=1)
    write_file(folder, "sub/b.csv", "name,id\ntwo,2\n", second=2)
    return folder


@pytest.mark.smoke
def test_each_file_is_loaded_once(spark, landing, table):
    first = copy_files(spark, table, landing, run="first", file_column="file")
    assert [(row[0], row[1]) for row in rows(table)] == [(1, "one"), (2, "two")]
    assert [row[2].rpartition("/")[2] for row in rows(table)] == ["a.csv", "b.csv"]
    assert (first.version, first.operation) == (0, "COPY INTO")
    assert {name: first.metrics[name] for name in ("numLoadedFiles", "numSkippedFiles", "numOutputRows")} == {
        "numLoadedFiles": 2, "numSkippedFiles": 0, "numOutputRows": 2,
    }  # fmt: skip
    assert first.metrics["maxModificationTime"] - first.metrics["minModificationTime"] == 1_000
    retry = copy_files(spark, table, landing, run="first", file_column="file")
    assert (retry.skipped, retry.skip_reason, retry.version, retry.metrics) == (True, None, 0, first.metrics)
    landing.rename(landing.parent / "archive")  # a retry after a lost worker needs no source
    assert copy_files(spark, table, landing, run="first", file_column="file").version == 0
    (landing.parent / "archive").rename(landing)
    other_run = copy_files(spark, table, landing, run="a renamed DAG", file_column="file")
    assert (other_run.skipped, other_run.committed, other_run.version) == (True, False, 0)
    assert other_run.skip_reason == f"The table has loaded all matching files in {landing} (2)."
    write_file(landing, "c.csv", "id,name\n3,three\n", second=3)
    write_file(landing, "_hidden.csv", "id,name\n9,nine\n")
    write_file(landing, "a.csv", "id,name\n4,four\n", second=4)  # the file has another time now
    second = copy_files(spark, table, landing, run="second", file_column="file")
    assert [row[0] for row in rows(table)] == [1, 2, 3, 4]
    assert delta_rs_rows(table) == rows(table)
    assert second.metrics["numSkippedFiles"] == 1
    assert loaded_names(table) == ["a.csv", "a.csv", "b.csv", "c.csv"]
    newest = DeltaTable(str(table)).history(limit=1)[0]
    assert (newest["operation"], newest["operationParameters"]["path"]) == ("COPY INTO", str(landing))


def test_a_run_selects_files_and_takes_the_oldest_first(spark, landing, table):
    for number in range(3, 7):
        write_file(landing, f"x/{number}.csv", f"id,name\n{number},x\n", second=10 - number)
    result = copy_files(spark, table, landing, pattern="[0-9].csv", max_files=2)
    assert [row[0] for row in rows(table)] == [5, 6]
    assert (result.metrics["numRemainingFiles"], result.metrics["numLoadedFiles"]) == (2, 2)
    copy_files(spark, table, landing, file_names=("a.csv", "x/5.csv"))
    assert [row[0] for row in rows(table)] == [1, 5, 6]
    copy_files(spark, table, f"{landing}/{{x,y}}/*.csv", max_bytes=1)
    assert [row[0] for row in rows(table)] == [1, 4, 5, 6]
    copy_files(spark, table, landing / "x" / "3.csv")
    assert [row[0] for row in rows(table)] == [1, 3, 4, 5, 6]
    copy_files(spark, table, landing, file_names=("a.csv",), force=True)
    assert [row[0] for row in rows(table)] == [1, 1, 3, 4, 5, 6]
    assert loaded_names(table) == ["3.csv", "4.csv", "5.csv", "6.csv", "a.csv"], "force records no file twice"
    with pytest.raises(SourceNotFoundError, match=r"1 of the file_names did not exist.*no\.csv"):
        copy_files(spark, table, landing, file_names=("a.csv", "no.csv"))
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        copy_files(spark, table, landing / "nowhere")
    assert copy_files(spark, table, landing, pattern="*.json").skip_reason.startswith("No file in")


def test_a_run_of_another_writer_at_the_same_time_loads_no_file_twice(spark, landing, table, monkeypatch):
    write_rows(spark, table, "SELECT 0 AS id, 'zero' AS name")
    commit = attempt_module.commit_proposal
    attempts = []

    def commit_after_rival(*arguments, **options):
        attempts.append(None)
        if len(attempts) == 1:
            monkeypatch.setattr(attempt_module, "commit_proposal", commit)
            copy_files(spark, table, landing, run="rival", file_names=("a.csv",))
            monkeypatch.setattr(attempt_module, "commit_proposal", commit_after_rival)
        return commit(*arguments, **options)

    monkeypatch.setattr(attempt_module, "commit_proposal", commit_after_rival)
    result = copy_files(spark, table, landing, run="slow")
    assert len(attempts) == 2
    assert [row[0] for row in rows(table)] == [0, 1, 2]
    assert (result.metrics["numLoadedFiles"], result.metrics["numSkippedFiles"]) == (1, 1)
    assert loaded_names(table) == ["a.csv", "b.csv"]


@pytest.mark.parametrize("names", [None, ("b.csv",)])
def test_a_first_load_that_loses_a_race_reads_its_files_with_the_types_of_the_table(
    spark, tmp_path, table, monkeypatch, names
):
    landing = tmp_path / "numbers"
    write_file(landing, "a.csv", "id\n1\n", second=1)
    write_file(landing, "b.csv", "id\n2\n", second=2)
    run_before_commits(
        monkeypatch, lambda: copy_files(spark, table, landing, schema="id STRING", file_names=("a.csv",))
    )
    result = copy_files(spark, table, landing, run="slow", file_names=names)
    assert (result.version, rows(table), loaded_names(table)) == (1, [("1",), ("2",)], ["a.csv", "b.csv"])


def test_a_restore_forgets_the_files_that_were_loaded_after_the_restored_version(spark, landing, table):
    copy_files(spark, table, landing, file_names=("a.csv",))
    copy_files(spark, table, landing)
    restore(spark, RestoreRequest(table=str(table), version=0))
    assert loaded_names(table) == ["a.csv"]
    write_file(landing, "c.csv", "id,name\n3,three\n")
    copy_files(spark, table, landing)
    assert [row[0] for row in rows(table)] == [1, 2, 3]
    assert loaded_names(table) == ["a.csv", "b.csv", "c.csv"]


def test_later_loads_keep_the_schema_of_the_first_load(spark, landing, table):
    copy_files(spark, table, landing)
    write_file(landing, "text.csv", "id\nnot a number\n", second=5)
    with pytest.raises(SourceError, match="cannot be read"):
        copy_files(spark, table, landing)
    os.unlink(landing / "text.csv")
    write_file(landing, "empty.csv", "")
    write_file(landing, "less.csv", "ID\n7\n", second=5)
    copy_files(spark, table, landing)
    assert rows(table)[-1] == (7, None)
    write_file(landing, "more.csv", "id,price,name\n8,1.5,eight\n", second=6)
    with pytest.raises(SchemaMismatchError, match=r"price.*merge_schema"):
        copy_files(spark, table, landing)
    copy_files(spark, table, landing, merge_schema=True)
    assert (8, "eight", 1.5) in rows(table)
    assert loaded_names(table) == ["a.csv", "b.csv", "empty.csv", "less.csv", "more.csv"]


def test_a_file_that_changes_during_the_read_is_loaded_once(spark, landing, table, monkeypatch):
    read = plan_module.read_source_files
    changes = [lambda: write_file(landing, "a.csv", "id,name\n1,one\n3,three\n", second=9)]

    def read_after_change(*arguments, **options):
        if changes:
            changes.pop()()
        return read(*arguments, **options)

    monkeypatch.setattr(plan_module, "read_source_files", read_after_change)
    first = copy_files(spark, table, landing, run="first")
    assert sorted(row["id"] for row in DeltaTable(str(table)).to_arrow().to_pylist()) == [1, 2, 3]
    assert copy_files(spark, table, landing, run="second").skip_reason
    assert first.metrics["numLoadedBytes"] == sum(path.stat().st_size for path in landing.rglob("*.csv"))
    write_file(landing, "a.csv", "id,name\n4,four\n", second=20)
    changes += [lambda second=second: write_file(landing, "a.csv", "", second=second) for second in (21, 22)]
    with pytest.raises(SourceChangedError, match=r"1 of 1 file changed .*a\.csv\. The operation was planned 2 times"):
        copy_files(spark, table, landing, run="third", conflict_retries=1)
    assert loaded_names(table) == ["a.csv", "b.csv"]


def test_an_error_names_the_unreadable_file_and_the_reason(spark, landing, table):
    write_file(landing, "bad.csv", "id,name\n2,x\nabc,y\n")
    with pytest.raises(SourceError, match=r'/bad\.csv: For input string: "abc".* parameter `quarantine`'):
        copy_files(spark, table, landing, schema="id INT, name STRING", pattern="bad*")
    compressed = gzip.compress(b"".join(b"%d,%d\n" % (n, n * 7919 % 104729) for n in range(20_000)))
    (landing / "cut.csv.gz").write_bytes(compressed[: len(compressed) // 2])
    with pytest.raises(SourceError, match=r"The end of .*cut\.csv\.gz is missing.*`pattern`"):
        copy_files(spark, table, landing, schema="id STRING, name STRING", pattern="*.gz")
    write_file(landing, "x.parquet", "no Parquet file")
    with pytest.raises(SourceError, match=r"/x\.parquet is not a Parquet file.*`pattern`"):
        copy_files(spark, table, landing, "parquet", pattern="*.parquet")
    write_file(landing, "wide.csv", "id,name\n1,x\n" + "," * 30_000)
    with pytest.raises(SourceError, match=r"/wide\.csv: .*`maxColumns`"):
        copy_files(spark, table, landing, schema="id INT, name STRING", pattern="wide*")
    write_file(landing, "at 12:00.csv", "id,name\n1,x\n")
    with pytest.raises(SourceError, match=r"/at%2012:00\.csv: .*absolute URI.* rename"):
        copy_files(spark, table, landing, schema="id INT, name STRING", pattern="at*")
    write_file(landing, "upper.csv.GZ", "id\n")
    with pytest.raises(SourceError, match=r"upper\.csv\.GZ, .*lower case"):
        copy_files(spark, table, landing, pattern="*.GZ")
    assert not table.exists()


def test_bytes_of_text_files_that_are_not_utf_8_become_replacement_characters(spark, tmp_path, table):
    landing = tmp_path / "texts"
    write_bytes(landing, "a.txt", "Straße\nok\n".encode("latin-1"))
    copy_files(spark, table, landing, "text")
    write_rows(spark, table, sources={"source": Source(format="text", path=str(landing))}, mode="append")
    assert sorted(rows(table)) == [("Stra\ufffde",), ("Stra\ufffde",), ("ok",), ("ok",)]


def test_parquet_files_with_different_types_are_read_with_the_types_of_the_table(spark, tmp_path, table):
    landing = tmp_path / "landing"
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT, price DECIMAL(9,2)"))
    prices, int32 = pa.array([Decimal("1.5")], pa.decimal128(2, 1)), pa.int32()
    columns = [
        {"id": pa.array([1], int32)}, {"id": [2], "price": prices}, {"id": pa.array([3], int32)},
        {"id": [4], "new": [True]},
    ]  # fmt: skip
    for number, arrays in enumerate(columns):
        (landing / str(number)).mkdir(parents=True)
        pq.write_table(pa.table(arrays), landing / str(number) / "part-0.parquet")
    with pytest.raises(SchemaMismatchError, match=r"new.*merge_schema"):
        copy_files(spark, table, landing, "parquet")
    copy_files(spark, table, landing, "parquet", pattern="[0-2]/*")
    copy_files(spark, table, landing, "parquet", merge_schema=True)
    assert [(row[0], row[1] and str(row[1]), row[2]) for row in rows(table)] == [
        (1, None, None), (2, "1.50", None), (3, None, None), (4, None, True),
    ]  # fmt: skip
    spark.sql("SELECT 5 AS id").coalesce(1).write.parquet(f"{landing}/5")
    spark.sql("SELECT 'x' AS id").coalesce(1).write.parquet(f"{landing}/6")
    with pytest.raises(SourceError, match="Data type mismatches"):
        copy_files(spark, table, landing, "parquet")


def test_headers_without_records_decide_no_types(spark, tmp_path, table):
    landing = tmp_path / "landing"
    write_file(landing, "a.csv", "id,amount\n\n")
    with pytest.raises(SourceError, match="the files have no record"):
        copy_files(spark, table, landing)
    write_file(landing, "b.csv", "id,amount\n1,2.5\n")
    copy_files(spark, table, landing)
    assert rows(table) == [(1, 2.5)]


@pytest.mark.parametrize("file_format", ["json", "parquet", "orc", "text"])
def test_other_formats_keep_the_types_of_the_table(spark, tmp_path, table, file_format):
    landing = tmp_path / "landing"
    column = "value" if file_format == "text" else "id"
    for number in (1, 2):
        query = "SELECT 'x' AS value" if file_format == "text" else f"SELECT {number} AS id"
        if number == 2 and file_format != "text":
            query += ", struct(true AS flag) AS new"
        spark.sql(query).coalesce(1).write.format(file_format).save(f"{landing}/{number}")
        copy_files(spark, table, landing, file_format, merge_schema=True)
    assert [row[0] for row in rows(table)] == (["x", "x"] if column == "value" else [1, 2])
    if file_format == "json":
        write_file(landing, "3.json", '{"id": "text"}\n')
        with pytest.raises(SourceError):
            copy_files(spark, table, landing, file_format)
        write_file(landing, "3.json", '{"id": 3, "new": {"flag": true, "other": 1}}\n')
        with pytest.raises(SchemaMismatchError, match="other"):
            copy_files(spark, table, landing, file_format)


def test_names_in_json_files_may_differ_in_case_from_the_table(spark, tmp_path, table):
    landing = tmp_path / "landing"
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT, m MAP<STRING, STRUCT<a: INT>>"))
    write_file(landing, "1.json", '{"ID": 1, "m": {"x": {"A": 2}}}\n')
    copy_files(spark, table, landing, "json")
    assert rows(table) == [(1, [("x", {"a": 2})])]
    write_file(landing, "2.json", '{"id": 2, "m": {"x": {"b": 2}}}\n')
    with pytest.raises(SchemaMismatchError, match=r"m\.value\.b"):
        copy_files(spark, table, landing, "json")
    write_file(landing, "2.json", '{"id": 2}\n{"ID": 3}\n')
    with pytest.raises(SchemaMismatchError, match="'id', ignoring case"):
        copy_files(spark, table, landing, "json")


def test_no_value_is_rounded_cut_or_inferred_from_one_batch(spark, tmp_path, table):
    landing = tmp_path / "landing"
    write_file(landing, "region=01/1.json", '{"id": 1, "ts": 2}\n')
    copy_files(spark, table, landing, "json")
    write_file(landing, "region=x/2.json", '{"id": 2}\n')
    copy_files(spark, table, landing, "json")
    assert [row[2] for row in sorted(rows(table))] == ["01", "x"]
    typed = tmp_path / "typed"
    schema = "amount DECIMAL(5,2), day DATE, items ARRAY<STRUCT<price: DECIMAL(5,2)>>, region INT"
    define_table(spark, TableRequest(table=str(typed), schema=schema))
    write_file(landing, "region=02/a.json", '{"amount": 1e2, "day": "2026-03-02", "items": [{"price": 1.50}]}\n')
    names = {"file_names": ("region=02/a.json",)}
    copy_files(spark, typed, landing, "json", **names)
    assert [str(value) for value in rows(typed)[0][:2]] == ["100.00", "2026-03-02"]
    assert rows(typed)[0][3] == 2
    for lossy_record in ('{"amount": 1.005}', '{"day": "2026-03-02T10:30:00"}', '{"items": [{"price": 1.505}]}'):
        write_file(landing, "region=02/a.json", f"{lossy_record}\n", second=9)
        with pytest.raises(DeltaLiteError, match="does not convert to it without loss"):
            copy_files(spark, typed, landing, "json", **names)
    write_file(landing, "b.csv", "amount\n1.005\n")
    with pytest.raises(DeltaLiteError, match="does not convert to it without loss") as error_info:
        copy_files(spark, typed, landing, file_names=("b.csv",))
    assert error_info.value.remedy == "Correct the value in the source, or convert it in `query`."
    assert len(rows(typed)) == 1


def test_a_query_reads_columns_of_the_schema_and_of_partition_folders(spark, tmp_path, table):
    landing = tmp_path / "landing"
    for day in (1, 2):
        write_file(landing, f"day=2026-01-0{day}/x.json", json.dumps({"id": str(day), "ignored": 1}))
        copy_files(
            spark, table, landing, "json", schema="id STRING, day DATE", partition_by=("day",),
            query="SELECT CAST(id AS INT) AS id, day FROM source WHERE id > :least", query_params={"least": "0"},
        )  # fmt: skip
    assert [(row[0], str(row[1])) for row in rows(table)] == [(1, "2026-01-01"), (2, "2026-01-02")]


def test_a_validation_checks_rows_and_writes_nothing(spark, landing, table):
    result = copy_files(spark, table, landing, run="check", validate_only=1)
    assert (result.committed, result.skipped, result.version) == (False, False, None)
    assert (result.metrics["numValidRows"], result.metrics["numLoadedFiles"]) == (1, 0)
    assert result.metrics["numRemainingFiles"] == 2
    assert not table.exists()
    define_table(spark, TableRequest(table=str(table), schema="id INT NOT NULL, name STRING"))
    write_file(landing, "null.csv", "id,name\n,none\n", second=9)
    content_before = folder_content(table)
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        copy_files(spark, table, landing, validate_only=100)
    audits = (Audit(name="limit of all rows", row_count=True, min=9),)
    checked = copy_files(spark, table, landing, validate_only=100, file_names=("a.csv",), audits=audits)
    assert checked.metrics["numValidRows"] == 1, "no audit runs"
    assert folder_content(table) == content_before


def test_files_whose_rows_fail_an_audit_are_not_loaded(spark, landing, table):
    audits = (Audit(name="known name", rows="name = 'two'"),)
    copy_files(spark, table, landing, run="first", file_names=("a.csv",), audits=audits)
    with pytest.raises(AuditFailedError, match="'known name'"):
        copy_files(spark, table, landing, run="second", audits=audits)
    assert loaded_names(table) == ["a.csv"]
    assert len(list((table / LOADED_FILES_DIR).glob("manifest-*"))) == 1, "the record is written after the audits"
    assert copy_files(spark, table, landing, run="without audits").metrics["numLoadedFiles"] == 1
    assert [row[0] for row in rows(table)] == [1, 2]


def test_tables_and_folders_that_cannot_keep_a_record_are_refused(spark, landing, table):
    with pytest.raises(InvalidRequestError, match="or lies in it"):
        copy_files(spark, landing / "table", landing)
    copy_files(spark, table, landing)
    retention = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    with pytest.raises(InvalidRequestError, match="record of loaded files"):
        define_table(spark, TableRequest(table=str(table), properties=retention))
    expiring = table.parent / "expiring"
    write_rows(spark, expiring, "SELECT 1 AS id, 'x' AS name", properties=retention)
    with pytest.raises(InvalidRequestError, match="setTransactionRetentionDuration"):
        copy_files(spark, expiring, landing)
