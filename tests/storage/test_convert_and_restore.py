"""Converts a folder on real storage to a table and restores the table. A restore reports missing data files."""

from __future__ import annotations

import pytest

import deltalite.spark as delta
from deltalite.commands.convert import convert
from deltalite.commands.restore import restore
from deltalite.errors import CorruptDataFileError
from deltalite.requests import ConvertRequest, RestoreRequest, RunIdentity
from deltalite.spark.hadoop.folders import folder_of
from tests.support.tables import delete_rows, sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def rows(spark, table):
    """Return the rows of a table as Spark reads them, in a fixed order."""
    return sorted_rows(tuple(row) for row in delta.read(spark, table).select("id", "p").collect())


@pytest.mark.campaign
def test_a_folder_becomes_a_table_and_the_table_is_restored(spark, table):
    frame = spark.sql("SELECT id, CONCAT('a/b %=', id) AS p FROM RANGE(3)")
    frame.write.partitionBy("p").parquet(table)
    expected = sorted_rows(tuple(row) for row in frame.collect())
    identity = RunIdentity(app_id="convert")
    result = convert(spark, ConvertRequest(table=table, partition_schema="p STRING", identity=identity))
    assert (result.version, result.metrics["numConvertedFiles"], rows(spark, table)) == (0, 3, expected)
    second_result = convert(spark, ConvertRequest(table=table, partition_schema="p STRING", identity=identity))
    assert (second_result.skipped, second_result.version) == (True, 0)
    delete_rows(spark, table, "id = 1")
    assert restore(spark, RestoreRequest(table=table, version=0)).metrics["numRestoredFiles"] == 1
    assert rows(spark, table) == expected
    delete_rows(spark, table, "id < 2")
    files = folder_of(spark, table)
    (missing_file,) = [
        file.name for file in files.files_below("", but_not_in="_delta_log") if file.name.startswith("p=a%2Fb %25%3D1/")
    ]
    files.remove(missing_file)
    with pytest.raises(CorruptDataFileError, match=r"because of 1 missing or changed file, .* is missing"):
        restore(spark, RestoreRequest(table=table, version=0))
    assert restore(spark, RestoreRequest(table=table, version=0, ignore_missing_files=True)).committed
    assert rows(spark, table) == [expected[0], expected[2]]
