"""delta-rs reads tables of deltalite. deltalite reads tables of delta-rs and appends to them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of, rows, sorted_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]


def rows_by_delta_rs(table, version=None):
    """Return the rows of a version by the PyArrow reader of delta-rs. (`delta_rs_rows` runs a query in delta-rs.)"""
    arrow_table = DeltaRsTable(str(table), version=version).to_pyarrow_table()
    return sorted_rows(tuple(row.values()) for row in arrow_table.to_pylist())


def write_in_every_mode(spark, table):
    """Write a table with one commit in each mode."""
    columns = "id, name, amount, at, day"
    row_template = (
        "{0}, 'n{0}', CAST({0}.5 AS DECIMAL(10,2)), TIMESTAMP'2026-01-0{0} 12:00:00.123456Z', DATE'2026-01-0{1}'"
    )
    write = lambda *lines, **options: write_rows(
        spark, table, values(columns, *(row_template.format(*line) for line in lines)), **options
    )
    properties = {"delta.checkpointInterval": "4", "mine": "yes"}
    write((1, 1), (2, 1), (3, 2), mode="error", partition_by=("day",), properties=properties, run="first")
    write((4, 2), mode="append")
    write((9, 9), mode="ignore", run="ignored")
    write((5, 2), mode="overwrite", replace_where="day = DATE'2026-01-02'")
    write((2, 3), mode="overwrite", replace_where="id = 2")
    write((6, 3), mode="overwrite", partition_overwrite="dynamic")
    query_with_new_columns = "SELECT 7 AS id, 'it''s 100% / Łódź' AS extra, struct(1.5D AS x) AS s"
    write_rows(spark, table, query_with_new_columns, mode="append", merge_schema=True)
    write((8, 1), (9, 1), mode="append", max_records_per_file=1, user_metadata="note", run="last")


@pytest.mark.campaign
def test_delta_rs_reads_every_version_of_a_table_with_full_overwrites(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, day", "1, 'a'", "2, 'a'", "3, 'b'"), partition_by=("day",))
    write_rows(spark, table, values("id, day", "4, 'a'", "5, 'b'"), mode="overwrite")
    write_rows(
        spark, table, values("id, day", "4, 'a'", "5, 'b'"), mode="overwrite", data_change=False, optimize_write=True
    )
    write_rows(spark, table, "SELECT 6 AS id, 1.5D AS x", mode="overwrite", overwrite_schema=True, partition_by=())
    assert DeltaRsTable(str(table)).version() == 3
    for version in range(4):
        assert rows_by_delta_rs(table, version=version) == rows(table, version=version)
    assert DeltaRsTable(str(table)).metadata().partition_columns == []
    assert [row[0] for row in rows_by_delta_rs(table)] == [6]


def test_delta_rs_reads_every_version_and_the_history_of_every_write_mode(spark, tmp_path):
    table = tmp_path / "t"
    write_in_every_mode(spark, table)
    delta_rs_table = DeltaRsTable(str(table))
    assert delta_rs_table.version() == DeltaTable(str(table)).version == 7
    for version in range(8):
        assert rows_by_delta_rs(table, version=version) == rows(table, version=version)
        frame = delta.read(spark, str(table), version_as_of=version)
        assert sorted(row.id for row in frame.collect()) == sorted(row[0] for row in rows(table, version=version))
    assert sorted(row[0] for row in rows_by_delta_rs(table)) == [1, 5, 6, 7, 8, 9]
    schema = DeltaTable(str(table)).schema
    assert pa.schema(delta_rs_table.schema().to_arrow()).names == schema.names
    assert json.loads(delta_rs_table.schema().to_json()) == json.loads(DeltaTable(str(table)).metadata.schema_string)
    metadata = delta_rs_table.metadata()
    assert metadata.partition_columns == ["day"] and metadata.configuration["mine"] == "yes"
    assert delta_rs_table.transaction_version("first") == delta_rs_table.transaction_version("ignored") == 0

    entries = {entry["version"]: entry for entry in delta_rs_table.history()}
    assert sorted(entries) == list(range(8)) and {entry["operation"] for entry in entries.values()} == {"WRITE"}
    for version, entry in entries.items():
        info = actions_of(table, version)["commitInfo"]
        assert entry["operationParameters"] == info["operationParameters"]
        assert entry["operationMetrics"] == info["operationMetrics"]
    assert json.loads(entries[7]["userMetadata"])["user_metadata"] == "note"
    report = verify(LocalLogStore(str(table)))
    assert (report.findings, report.readable) == ((), ((0, 7),))


def test_delta_rs_skips_files_by_the_statistics_of_deltalite(spark, tmp_path):
    table = tmp_path / "t"
    write_in_every_mode(spark, table)
    actions = pa.table(DeltaRsTable(str(table)).get_add_actions(flatten=True))
    adds_by_id = {action["min.id"]: action for action in actions.to_pylist()}
    assert sorted(adds_by_id) == [1, 5, 6, 7, 8, 9]
    add_of_8 = adds_by_id[8]
    assert (add_of_8["num_records"], add_of_8["max.id"]) == (1, 8)
    assert (add_of_8["min.name"], add_of_8["max.name"]) == ("n8", "n8")
    assert Decimal(add_of_8["min.amount"]) == Decimal("8.50") and add_of_8["partition.day"] == dt.date(2026, 1, 1)
    min_at, max_at = add_of_8["min.at"], add_of_8["max.at"]
    written_at = dt.datetime(2026, 1, 8, 12, 0, 0, 123456, tzinfo=min_at.tzinfo)
    assert min_at <= written_at <= max_at + dt.timedelta(milliseconds=1)
    assert (add_of_8["null_count.id"], adds_by_id[7]["null_count.name"], adds_by_id[7]["min.s.x"]) == (0, 1, 1.5)
    matching_files = DeltaRsTable(str(table)).to_pyarrow_dataset().get_fragments(pc.field("id") > 7)
    assert len(list(matching_files)) == 2


PRICE = pa.struct([("amount", pa.decimal128(12, 2)), ("tags", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", PRICE),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("bytes", pa.binary()),
        ("flag", pa.bool_()),
        ("single", pa.float32()),
    ]
)


def table_of_ids(*ids):
    """Return rows with these ids. Their other values follow from the id."""
    lines = [
        {
            "id": n,
            "name": None if n % 3 == 0 else f"Łódź {n}",
            "day": None if n % 4 == 0 else dt.date(2026, 1, 1 + n % 3),
            "kind": ["a/b", "50%", "k=v", "x y", None][n % 5],
            "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC) + dt.timedelta(days=n),
            "local": dt.datetime.fromisoformat(f"2026-03-08 02:30:00.{n:06}"),
            "price": {"amount": Decimal(n) / 4, "tags": ["t", None]},
            "counts": [("k", n)],
            "bytes": bytes([n]),
            "flag": n % 2 == 0,
            "single": 0.5 * n,
        }
        for n in ids
    ]
    return pa.Table.from_pylist(lines, schema=SCHEMA)


@pytest.fixture
def delta_rs_folder(tmp_path):
    """A table of delta-rs with nulls, partitions by dates and special characters, and a commit after a checkpoint."""
    table = tmp_path / "delta-rs"
    write_deltalake(table, table_of_ids(*range(10)), partition_by=["day", "kind"])
    write_deltalake(table, table_of_ids(*range(10, 20)), mode="append")
    DeltaRsTable(str(table)).delete("id = 3")
    DeltaRsTable(str(table)).create_checkpoint()
    write_deltalake(table, table_of_ids(*range(20, 25)), mode="append")
    return table


def comparable_row(row):
    """Return a row with its struct and its map as dictionaries, so that rows of different engines can be compared."""
    return {**row, "price": None if row["price"] is None else dict(row["price"]), "counts": dict(row["counts"] or ())}


def test_deltalite_reads_and_appends_to_a_table_of_delta_rs(spark, delta_rs_folder):
    assert list((delta_rs_folder / "_delta_log").glob("*.checkpoint.parquet"))
    expected = sorted(
        (row for n in range(25) if n != 3 for row in table_of_ids(n).to_pylist()), key=lambda row: row["id"]
    )

    def assert_all_engines_read_the_expected_rows():
        deltalite_rows = sorted(DeltaTable(str(delta_rs_folder)).to_arrow().to_pylist(), key=lambda row: row["id"])
        assert [comparable_row(row) for row in deltalite_rows] == [comparable_row(row) for row in expected]
        delta_rs_rows = sorted(
            DeltaRsTable(str(delta_rs_folder)).to_pyarrow_table().to_pylist(), key=lambda row: row["id"]
        )
        assert [comparable_row(row) for row in delta_rs_rows] == [comparable_row(row) for row in expected]
        frame = delta.read(spark, str(delta_rs_folder)).orderBy("id")
        comparable_columns = ["id", "name", "day", "kind", "price", "bytes", "flag", "single"]
        for spark_row, row in zip(frame.collect(), expected, strict=True):
            spark_values = spark_row.asDict(recursive=True)
            assert {n: spark_values[n] for n in comparable_columns} == {n: row[n] for n in comparable_columns}
            assert spark_values["counts"] == dict(row["counts"])
        micros = [row[0] for row in frame.selectExpr("unix_micros(at)").collect()]
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        assert micros == [(row["at"] - epoch) // dt.timedelta(microseconds=1) for row in expected]

    assert DeltaTable(str(delta_rs_folder)).schema.names == SCHEMA.names
    assert_all_engines_read_the_expected_rows()
    query = (
        "SELECT 30L AS id, 'new' AS name, DATE'2026-01-02' AS day, 'a/b' AS kind, "
        "TIMESTAMP'1969-12-31 23:59:59.999999Z' AS at, "
        "TIMESTAMP_NTZ'2026-03-08 02:30:00' AS local, "
        "struct(CAST(7.25 AS DECIMAL(12,2)) AS amount, array('t') AS tags) AS price, "
        "map('k', 1) AS counts, X'00' AS bytes, true AS flag, CAST(0.5 AS FLOAT) AS single"
    )
    result = write_rows(spark, delta_rs_folder, query, run="ours")
    assert result.version == 4
    expected.append(
        {
            "id": 30,
            "name": "new",
            "day": dt.date(2026, 1, 2),
            "kind": "a/b",
            "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
            "local": dt.datetime.fromisoformat("2026-03-08 02:30:00"),
            "price": {"amount": Decimal("7.25"), "tags": ["t"]},
            "counts": [("k", 1)],
            "bytes": b"\x00",
            "flag": True,
            "single": 0.5,
        }
    )
    assert_all_engines_read_the_expected_rows()
    # delta-rs appends after deltalite.
    write_deltalake(delta_rs_folder, table_of_ids(31), mode="append")
    expected.extend(table_of_ids(31).to_pylist())
    assert_all_engines_read_the_expected_rows()
    assert write_rows(spark, delta_rs_folder, query, run="ours").skipped


@pytest.mark.campaign
def test_replace_where_on_a_table_of_delta_rs_deletes_exactly_the_rows_that_match(spark, delta_rs_folder):
    """The statistics and partition values of delta-rs select files. They must not decide which rows are deleted."""
    rows_before = DeltaTable(str(delta_rs_folder)).to_arrow()
    for predicate in (
        "id = 7",
        "single > 9.5",
        "name IS NULL",
        "price.amount < 2.5",
        "kind = '50%' OR day IS NULL",
        "at >= TIMESTAMP'1970-01-20 23:59:59.999999Z'",
        "NOT flag AND kind <=> NULL",
    ):
        matching_ids = {
            row.id for row in delta.read(spark, str(delta_rs_folder), version_as_of=3).where(predicate).collect()
        }
        assert matching_ids and len(matching_ids) < rows_before.num_rows, predicate
        version = DeltaTable(str(delta_rs_folder)).version
        result = write_rows(
            spark, delta_rs_folder, "SELECT 1L AS id WHERE FALSE", mode="overwrite", replace_where=predicate
        )
        remaining_ids = set(DeltaTable(str(delta_rs_folder)).to_arrow()["id"].to_pylist())
        ids_before = set(DeltaTable(str(delta_rs_folder), version=version).to_arrow()["id"].to_pylist())
        assert remaining_ids == ids_before - matching_ids
        assert result.metrics["numDeletedRows"] == len(matching_ids & ids_before)
        assert set(DeltaRsTable(str(delta_rs_folder)).to_pyarrow_table()["id"].to_pylist()) == remaining_ids
