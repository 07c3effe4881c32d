"""A text that another engine wrote as the partition value of a date or time is read as Spark's CAST reads it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812  the usual name

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.errors import CorruptLogError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.partition_values import partition_scalar
from deltalite.protocol.schema import PrimitiveType, StructField, StructType, schema_to_json
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.partition_columns import typed_partition_value
from deltalite.storage.opening import open_store
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.tables import rows

pytestmark = pytest.mark.spark

TEXTS = [
    "2020-1-1", "2020-01-1", " 2020-01-01 ", "2020-01-01\t", "2020", "2020-7", "2020-13-01", "2020-02-30", "202-01-01",
    "99999-01-01", "+2020-01-01", "-0044-3-15", "20200101", "2020-1-1 1:2:3", "2020-1-1T1:2:3.5", "2020-1-1 1:2",
    "2020-1-1 1", "2020-1-1T", "2020-1-1 x", "2020-01-01x", "2020-1-1 1:2:3.", "2020-1-1 1:2:3.1234567890123",
    "2020-1-1 1:2:3 UTC", "2020-1-1 1:2:3UTC", "2020-1-1 1:2:3 +0000", "2020-1-1 1:2:3+00:00", "2020-1-1 1:2:3Z",
    "2020-1-1 1:2:3 Z", "2020-1-1 1:2:3z", "2020-1-1 1:2:3 utc", "2020-1-1 1:2:3.5-07:30", "2020-1-1 1:2:3+1",
    "2020-1-1 1:2:3+1:30", "2020-1-1 1:2:3+01:3", "2020-1-1 1:2:3+013", "2020-1-1 1:2:3+01:02:03",
    "2020-1-1 1:2:3+010203", "2020-1-1 1:2:3+19:00", "2020-1-1 1:2:3+01:60", "2020-1-1 1:2:3 GMT+2",
    "2020-1-1 1:2:3 UT-02:30", "2020-1-1 1:2:3 GMT", "2020-1-1 1:2:3 Europe/Berlin", "2020-7-1 1:2:3 Europe/Berlin",
    "2020-03-29 2:30:00 Europe/Berlin", "2020-10-25 2:30:00 Europe/Berlin", "2020-1-1 1:2:3 America/New_York",
    "2020-1-1 1:2:3 Mars/Olympus", "2020-1-1 1:2:3 ../x", "2020-1-1 24:00:00", "2020-1-1 1:60:00", "2020-1-1  1:2:3",
    "2020-1-1 1:2:3\x7f", "x", "-", "2020-", "2020-1-", "2020--1",
]  # fmt: skip


@pytest.mark.parametrize("name", ["date", "timestamp", "timestamp_ntz"])
def test_both_readers_convert_a_text_as_sparks_cast_does(spark, name):
    kind = PrimitiveType(name)
    maps = pa.array([[("p", text)] for text in TEXTS], pa.map_(pa.string(), pa.string()))
    frame = spark.createDataFrame(pa.table({"text": TEXTS, "values": maps}))
    by_spark_reader = typed_partition_value(F.col("values"), "p", kind)
    table = frame.select(
        "text", F.col("text").try_cast(name).alias("by_cast"), by_spark_reader.alias("by_spark_reader")
    ).toArrow()
    casts, spark_values = (table[column].cast(type_to_arrow(kind)) for column in ("by_cast", "by_spark_reader"))
    differences = []
    for text, cast, spark_value in zip(table["text"], casts, spark_values, strict=True):
        try:
            arrow_value = partition_scalar(text.as_py(), kind)
        except CorruptLogError:
            arrow_value = pa.scalar(None, type_to_arrow(kind))
        if not arrow_value == cast == spark_value:
            differences.append((text, arrow_value, cast, spark_value))
    assert not differences


def write_partitioned_table(tmp_path, type_name: str, *texts: str) -> Any:
    """Write a table with one file of one row for each partition value in `texts`. The rows have the ids 0, 1, 2, ..."""
    root, log = tmp_path / "table", tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    schema = StructType((StructField("id", PrimitiveType("long")), StructField("p", PrimitiveType(type_name))))
    metadata = {"schemaString": schema_to_json(schema), "partitionColumns": ["p"]}
    metadata |= {"id": "t", "format": {"provider": "parquet"}, "configuration": {"delta.enableChangeDataFeed": "true"}}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 4}
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for n, text in enumerate(texts):
        pq.write_table(pa.table({"id": [n]}), root / f"{n}.parquet")
        size = (root / f"{n}.parquet").stat().st_size
        actions.append({"add": {"path": f"{n}.parquet", "partitionValues": {"p": text}, "size": size,
            "modificationTime": 0, "dataChange": True}})  # fmt: skip
    (root / commit_name(0)).write_text("\n".join(map(json.dumps, actions)))
    return root


def test_every_kind_of_read_accepts_dates_as_other_engines_write_them(spark, tmp_path, relation_kind):
    root = write_partitioned_table(tmp_path, "date", "2020-1-1", "2020-01-01 00:00:00", "2020-1-02", "2020-01-01")
    first, second = date(2020, 1, 1), date(2020, 1, 2)
    expected = [(0, first), (1, first), (2, second), (3, first)]
    assert rows(root) == expected
    assert sorted(map(tuple, delta.read(spark, str(root)).collect())) == expected
    assert DeltaTable(str(root)).to_arrow(filter=[("p", "=", second)]).to_pylist() == [{"id": 2, "p": second}]
    assert sorted(r.id for r in delta.read(spark, str(root), where="p = '2020-01-01'").collect()) == [0, 1, 3]
    changed_rows = delta.changes(spark, str(root), from_version=0).select("id", "p").collect()
    assert sorted(map(tuple, changed_rows)) == expected
    batches = DeltaTable(str(root)).changes(from_version=0)
    assert sorted((row["id"], row["p"]) for batch in batches for row in batch.to_pylist()) == expected


def test_both_readers_read_times_of_other_engines(spark, tmp_path, relation_kind):
    root = write_partitioned_table(
        tmp_path, "timestamp", "2020-1-1 1:2:3", "2020-1-1 1:2:3 UTC", "2020-01-01 02:02:03 +0100"
    )
    moment = datetime(2020, 1, 1, 1, 2, 3, tzinfo=UTC)
    assert rows(root) == [(n, moment) for n in range(3)]
    assert delta.read(spark, str(root)).toArrow()["p"].cast(pa.timestamp("us", "UTC")).to_pylist() == [moment] * 3


def test_an_invalid_partition_value_fails_reads_of_rows_but_not_of_the_list_of_files(spark, tmp_path, relation_kind):
    root = write_partitioned_table(tmp_path, "date", "2020-1-1", "yesterday")
    problem = r"'yesterday'.*'p' of the file '1\.parquet'"
    with pytest.raises(CorruptLogError, match=problem):
        rows(root)
    with pytest.raises(CorruptLogError, match=problem):
        delta.read(spark, str(root)).collect()
    store = open_store(str(root))
    write_checkpoint(Snapshot.load(store), now_ms=0)
    assert DeltaTable(str(root)).files().num_rows == 2
