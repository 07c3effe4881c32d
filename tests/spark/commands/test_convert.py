"""A folder that Spark has written has the same rows before and after its conversion, for every reader."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite.commands.convert import convert
from deltalite.commands.restore import restore
from deltalite.inspection.verify import verify
from deltalite.requests import ConvertRequest, RestoreRequest, Source
from deltalite.spark.runtime.session import settings
from deltalite.storage.local import LocalLogStore
from tests.support.tables import delete_rows, write_rows

ROWS = """
SELECT id, CAST(id AS TINYINT) AS tiny, IF(id = 3, NULL, CONCAT('ä', id)) AS text,
       TIMESTAMP'2026-01-01 10:00:00.123456' + MAKE_DT_INTERVAL(id) AS at,
       CAST(TIMESTAMP_NTZ'1500-01-01 10:00:00' AS TIMESTAMP_NTZ) AS here,
       DATE'1200-02-29' AS old, CAST(id AS DECIMAL(20, 5)) AS dec, CAST('NaN' AS DOUBLE) / id AS x, BINARY('b') AS raw,
       NAMED_STRUCT('a', ARRAY(id, NULL), 'm', MAP('k', NAMED_STRUCT('z', id))) AS deep,
       IF(id = 2, NULL, CONCAT('a/b %=', id)) AS p, DATE'2026-01-01' AS day
FROM RANGE(1, 6)
"""


def row_texts(frame):
    """The rows of a frame as sorted texts, so that NaN equals NaN."""
    return sorted(json.dumps(row.asDict(recursive=True), default=repr, sort_keys=True) for row in frame.collect())


@pytest.mark.smoke
def test_a_converted_folder_of_spark_has_the_same_rows(spark, tmp_path):
    folder = str(tmp_path / "t")
    int96 = {"spark.sql.parquet.outputTimestampType": "INT96", "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED"}
    with settings(spark, int96):
        spark.sql(ROWS).write.partitionBy("p", "day").parquet(folder)
    spark.sql(ROWS).selectExpr("*", "1.5 AS new").write.mode("append").partitionBy("p", "day").parquet(folder)
    parquet = spark.read.schema(spark.read.option("mergeSchema", True).parquet(folder).schema).parquet(folder)
    rows_before = row_texts(parquet)
    result = convert(spark, ConvertRequest(table=folder, partition_schema="p STRING, day DATE"))
    assert result.metrics["numConvertedRows"] == len(rows_before) == 10
    table = delta.read(spark, folder)
    assert row_texts(table.select(*parquet.columns)) == rows_before
    assert table.where("at > TIMESTAMP'2026-01-04'").count() == 6
    assert table.where("isnan(x)").count() == 10
    assert table.where("p IS NULL AND old < DATE'1300-01-01'").count() == 2
    delta_rs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder))
    rows_by_delta_rs = pa.table(delta_rs.execute("SELECT id, text, p, tiny FROM t").read_all()).to_pylist()
    rows_by_spark = [row.asDict() for row in table.select("id", "text", "p", "tiny").collect()]
    sort_key = lambda row: str(sorted(row.items()))
    assert sorted(rows_by_delta_rs, key=sort_key) == sorted(rows_by_spark, key=sort_key)
    assert verify(LocalLogStore(folder)).findings == ()
    write_rows(spark, folder, "SELECT * EXCEPT (id), 99 AS id FROM source LIMIT 1", mode="append", merge_schema=True,
        sources={"source": Source(format="delta", path=folder)})  # fmt: skip
    delete_rows(spark, folder, "id < 99")
    assert delta.read(spark, folder).count() == 1, "a converted table can be changed like any other"
    restore(spark, RestoreRequest(table=folder, version=0))
    assert row_texts(delta.read(spark, folder).select(*parquet.columns)) == rows_before


def test_narrow_integers_of_old_files_are_read_as_the_wider_type(spark, tmp_path):
    folder = str(tmp_path / "t")
    for value in ("CAST(-1 AS TINYINT)", "CAST(300 AS SMALLINT)", "100000"):
        rows = f"SELECT {value} AS n, ARRAY(NAMED_STRUCT('n', {value})) AS deep"
        spark.sql(rows).coalesce(1).write.mode("append").parquet(folder)
    convert(spark, ConvertRequest(table=folder))
    table = delta.read(spark, folder)
    assert table.schema["n"].dataType.simpleString() == "int"
    assert sorted((row.n, row.deep[0].n) for row in table.collect()) == [(-1, -1), (300, 300), (100_000, 100_000)]
    assert table.where("n > 200").count() == 2
    assert verify(LocalLogStore(folder)).findings == ()
