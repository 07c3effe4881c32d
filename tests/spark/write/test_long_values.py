"""Partition values that are too long for a folder name are written, optimized, updated and read."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name

from deltalite import DeltaTable
from deltalite.errors import SourceError
from deltalite.inspection.verify import verify
from deltalite.protocol.paths import HIVE_NULL
from deltalite.spark.write.long_values import folder_text, values_of_stand_ins
from deltalite.storage.local import LocalLogStore
from tests.support.packing import assert_all_readers_agree, rows_by_version
from tests.support.tables import data_files, delta_rs_rows, optimize_table, rows, spark_rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

LONGEST_SHORT_VALUE = "a" * (255 - len("p="))
UNUSUAL_VALUES = [
    LONGEST_SHORT_VALUE,
    LONGEST_SHORT_VALUE + "a",
    "b" * 5000,
    "/" * 100,
    "é" * 130,
    "long-value-",
    HIVE_NULL,
    "a/b=c %20",
    None,
]
VALUES = ", ".join("NULL" if value is None else f"'{value}'" for value in UNUSUAL_VALUES)


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def partitions(table):
    """The partition values of a table's files."""
    return {text for values in DeltaTable(str(table)).files()["partition_values"].to_pylist() for _, text in values}


@pytest.mark.parametrize(
    ("z_order_by", "properties"),
    [
        pytest.param([], {}, marks=pytest.mark.campaign),
        (["id"], {"delta.columnMapping.mode": "name"}),
        pytest.param([], {"delta.columnMapping.mode": "name"}, marks=pytest.mark.campaign),
        pytest.param(["id"], {}, marks=pytest.mark.campaign),
    ],
    ids=["packed-plain", "ordered-mapped", "packed-mapped", "ordered-plain"],
)
def test_long_partition_values_are_written_optimized_and_updated_like_short_ones(
    spark, table, monkeypatch, z_order_by, properties
):
    query = f"SELECT {{}} AS id, explode(array({VALUES})) AS p"
    for number in range(2):
        write_rows(spark, table, query.format(number), partition_by=("p",), properties=properties)
    assert partitions(table) == set(UNUSUAL_VALUES)
    if not properties:
        folders = {file.split("/")[0] for file in data_files(table)}
        assert f"p={LONGEST_SHORT_VALUE}" in folders, "a value that fits into a folder name must be in it"
        # Four values are too long. Two others look like a stand-in or like the folder of null.
        assert sum(name.startswith("p=long-value-") for name in folders) == 6
    rows_before = rows_by_version(table)
    with monkeypatch.context() as patch:
        patch.setattr(
            DataFrame,
            "distinct",
            lambda _frame: pytest.fail("optimize must take the long values from the log, not from the rows"),
        )
        assert optimize_table(spark, table, z_order_by=z_order_by).metrics["numAddedFiles"] == len(UNUSUAL_VALUES)
    assert partitions(table) == set(UNUSUAL_VALUES)
    assert_all_readers_agree(spark, table, rows_before)
    update_rows(spark, table, {"p": "concat(p, p)"}, "id = 1")
    doubled = {None if value is None else value * 2 for value in UNUSUAL_VALUES}
    assert partitions(table) == doubled | set(UNUSUAL_VALUES)
    assert rows(table) == delta_rs_rows(table) == spark_rows(spark, table)
    assert verify(LocalLogStore(str(table))).findings == ()


def test_a_source_whose_long_partition_values_change_between_reads_is_rejected(spark):
    frame = spark.createDataFrame([("b" * 300,), ("short",)], "p STRING")
    texts = {"p": F.col("p")}
    (folder,) = (row[0] for row in frame.select(folder_text(F.col("p"), "p")).collect() if row[0] != "short")
    assert values_of_stand_ins([folder, "short", None], frame, texts, ()) == {folder: "b" * 300}
    with pytest.raises(SourceError, match=r"cannot be folder names\. The second read lacked 1 of"):
        values_of_stand_ins([folder, "long-value-of-rows-before"], frame, texts, ())
