"""Partition values that are too long for a folder's name are written, packed, changed and read by others."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite import DeltaTable
from deltalite.errors import SourceError
from deltalite.inspection.verify import verify
from deltalite.protocol.paths import HIVE_NULL
from deltalite.spark.write.long_values import folder_text, long_values
from deltalite.storage.local import LocalLogStore
from tests.support.packing import by_delta_rs, check, versions
from tests.support.tables import data_files, optimized, rows, spark_rows, update_rows, write_rows

pytestmark = pytest.mark.spark

SHORT = "a" * (255 - len("p="))
ODD = [SHORT, SHORT + "a", "b" * 5000, "/" * 100, "é" * 130, "long-value-", HIVE_NULL, "a/b=c %20", None]
VALUES = ", ".join("NULL" if value is None else f"'{value}'" for value in ODD)


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def partitions(table):
    return {text for values in DeltaTable(str(table)).files()["partition_values"].to_pylist() for _, text in values}


@pytest.mark.parametrize(
    ("order", "properties"),
    [
        ([], {}),
        (["id"], {"delta.columnMapping.mode": "name"}),
        pytest.param([], {"delta.columnMapping.mode": "name"}, marks=pytest.mark.campaign),
        pytest.param(["id"], {}, marks=pytest.mark.campaign),
    ],
    ids=["packed-plain", "ordered-mapped", "packed-mapped", "ordered-plain"],
)
def test_long_values_are_written_and_packed_like_all_others(spark, table, monkeypatch, order, properties):
    query = f"SELECT {{}} AS id, explode(array({VALUES})) AS p"
    for number in range(2):
        write_rows(spark, table, query.format(number), partition_by=("p",), properties=properties)
    assert partitions(table) == set(ODD)
    if not properties:
        folders = {file.split("/")[0] for file in data_files(table)}
        assert f"p={SHORT}" in folders, "what a folder can be called after it is called after"
        assert sum(name.startswith("p=long-value-") for name in folders) == 6
    before = versions(table)
    with monkeypatch.context() as patch:
        patch.setattr(DataFrame, "distinct", lambda _frame: pytest.fail("the log knows them"))
        assert optimized(spark, table, z_order_by=order).metrics["numAddedFiles"] == len(ODD)
    assert partitions(table) == set(ODD)
    check(spark, table, before)
    update_rows(spark, table, {"p": "concat(p, p)"}, "id = 1")
    doubled = {None if value is None else value * 2 for value in ODD}
    assert partitions(table) == doubled | set(ODD)
    assert rows(table) == by_delta_rs(table) == spark_rows(spark, table)
    assert verify(LocalLogStore(str(table))).findings == ()


def test_a_source_whose_long_partition_values_change_is_rejected(spark):
    rows_now = spark.createDataFrame([("b" * 300,), ("short",)], "p STRING")
    texts = {"p": F.col("p")}
    (folder,) = (row[0] for row in rows_now.select(folder_text(F.col("p"), "p")).collect() if row[0] != "short")
    assert long_values([folder, "short", None], rows_now, texts, ()) == {folder: "b" * 300}
    with pytest.raises(SourceError, match=r"1 partition values .* returned other values"):
        long_values([folder, "long-value-of-rows-before"], rows_now, texts, ())
