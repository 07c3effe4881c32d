"""No file is lost if the files of one run have different partition folders."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.errors import SourceError
from deltalite.protocol.partition_folders import PartitionFolders
from deltalite.spark.reader import file_loading
from tests.support.copying import copy_files, loaded_names, write_file
from tests.support.tables import sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def columns_of(table, *names):
    """Return these columns of the rows of a table, in a fixed order."""
    return sorted_rows(tuple(row[name] for name in names) for row in DeltaTable(str(table)).to_arrow().to_pylist())


def write_number(folder, name, number):
    """Write a CSV or JSON file with the column `id`."""
    return write_file(folder, name, json.dumps({"id": number}) if name.endswith("json") else f"id\n{number}\n")


@pytest.mark.sample("json")
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_files_of_different_folders_are_all_loaded(spark, landing, table, file_format):
    names = ["a", "day=2026-01-01/b", "shop/Day=2026-01-02/part/c", "note a=b/d", "2026/e", "k=/f"]
    for number, name in enumerate(names):
        write_number(landing, f"{name}.{file_format}", number)
    checked = copy_files(spark, table, landing, file_format, validate_only=100)
    assert checked.metrics["numValidRows"] == len(names)
    copy_files(spark, table, landing, file_format, file_column="file")
    days = ["2026-01-01", "2026-01-02"]
    assert columns_of(table, "id", "day", "note a") == [
        (0, None, None), (1, days[0], None), (2, days[1], None), (3, None, "b"), (4, None, None), (5, None, None),
    ]  # fmt: skip
    assert len(set(columns_of(table, "file"))) == len(names)
    write_number(landing, f"g.{file_format}", 6)
    write_number(landing, f"hour=3/h.{file_format}", 7)
    copy_files(spark, table, landing, file_format, file_column="file", merge_schema=True)
    assert columns_of(table, "id", "day", "hour")[6:] == [(6, None, None), (7, None, "3")]
    assert len(loaded_names(table)) == len(names) + 2


def test_parquet_files_of_different_folders_have_one_schema(spark, landing, table):
    for folder, query in {
        "plain": "SELECT 1 AS id, 'x' AS name",
        "day=1": "SELECT 2 AS id, 1.5 AS price",
        "other": "SELECT 3 AS id, 7 AS day",
    }.items():
        spark.sql(query).coalesce(1).write.parquet(f"{landing}/{folder}")
    copy_files(spark, table, landing, "parquet")
    assert [(*row[:3], row[3] and str(row[3])) for row in columns_of(table, "id", "day", "name", "price")] == [
        (1, None, "x", None), (2, "1", None, "1.5"), (3, "7", None, None),
    ]  # fmt: skip


def test_bad_records_of_different_folders_are_quarantined(spark, landing, table, tmp_path):
    write_file(landing, "a.csv", "id\n1\n2\nx\n")
    write_file(landing, "day=1/b.csv", "id\n3\ny\n4\n")
    quarantine = tmp_path / "quarantine"
    copy_files(spark, table, landing, schema="id INT", quarantine=str(quarantine))
    assert columns_of(table, "id", "day") == [(1, None), (2, None), (3, "1"), (4, "1")]
    assert columns_of(quarantine, "line", "record") == [(3, "y"), (4, "x")]


def test_a_load_fails_if_spark_would_leave_out_a_file(spark, landing, table, monkeypatch):
    write_number(landing, "a.csv", 1)
    write_number(landing, "day=1/b.csv", 2)

    def group_only(first, last, group):
        one_group = lambda _, addresses: {group: sorted(addresses)[first:last]}
        monkeypatch.setattr(file_loading, "group_by_partition_folders", one_group)

    group_only(0, 2, PartitionFolders(names=("day",)))
    with pytest.raises(SourceError, match=r"only 1 of 2 files in \S+landing.*a\.csv"):
        copy_files(spark, table, landing)
    group_only(1, 2, PartitionFolders(names=("day",)))
    with pytest.raises(SourceError, match=r"only 1 of 2 files in \S+landing.*a\.csv"):
        copy_files(spark, table, landing, "text")
    monkeypatch.undo()
    monkeypatch.setattr(file_loading, "_MAX_PARTITION_GROUPS", 1)
    with pytest.raises(SourceError, match=r"partition folders of 2 kinds"):
        copy_files(spark, table, landing)
    assert not table.exists()
