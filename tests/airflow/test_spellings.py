"""The spellings of a table's address: for Spark through Hadoop, and for a worker through fsspec."""

from __future__ import annotations

import pytest

from deltalite.spark.hadoop.uris import spark_uri
from deltalite.storage.locations import is_same_table, parse_location
from deltalite.storage.opening import fsspec_uri

ABFSS = "abfss://lake@account.dfs.core.windows.net/orders"
SPELLINGS = [
    ("/lake/orders", "file:/lake/orders", None),
    ("file:///lake/orders", "file:/lake/orders", None),
    ("s3://lake/orders", "s3a://lake/orders", "s3://lake/orders"),
    ("s3a://lake/orders", "s3a://lake/orders", "s3://lake/orders"),
    ("s3n://lake/orders/", "s3a://lake/orders", "s3://lake/orders"),
    ("gs://lake/orders", "gs://lake/orders", "gs://lake/orders"),
    (ABFSS, ABFSS, ABFSS),
    ("hdfs://namenode:8020/lake/orders", "hdfs://namenode:8020/lake/orders", "hdfs://namenode:8020/lake/orders"),
    ("hdfs:///lake/orders", "hdfs:///lake/orders", "hdfs:///lake/orders"),
]


@pytest.mark.parametrize(("address", "spark", "fsspec"), SPELLINGS, ids=[row[0] for row in SPELLINGS])
def test_spark_and_fsspec_spell_an_address_differently(address, spark, fsspec):
    location = parse_location(address)
    assert spark_uri(location.path) == spark
    assert location.is_local if fsspec is None else fsspec_uri(location) == fsspec
    assert is_same_table(address, spark)
