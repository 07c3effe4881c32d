"""The spellings of a table's address: for Spark through Hadoop, and for a worker through fsspec."""

from __future__ import annotations

import pytest

from deltalite.spark.hadoop.uris import spark_uri
from deltalite.storage.locations import is_same_table, parse_location
from deltalite.storage.opening import fsspec_uri

ABFSS = "abfss://lake@account.dfs.core.windows.net/orders"
# The address of a table, its spelling for Spark, and its spelling for fsspec. A local table needs no fsspec.
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


@pytest.mark.parametrize(("address", "spark_spelling", "fsspec_spelling"), SPELLINGS, ids=[row[0] for row in SPELLINGS])
def test_an_address_gets_the_spellings_of_spark_and_of_fsspec(address, spark_spelling, fsspec_spelling):
    location = parse_location(address)
    assert spark_uri(location.path) == spark_spelling
    assert location.is_local if fsspec_spelling is None else fsspec_uri(location) == fsspec_spelling
    assert is_same_table(address, spark_spelling)
