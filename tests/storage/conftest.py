"""S3 and HDFS servers, each started by the first test that requests it."""

from __future__ import annotations

import pytest

from tests.support.remote import hadoop_jars, hdfs_cluster, s3_server


@pytest.fixture(scope="session")
def s3():
    """An S3 endpoint with the bucket `lake`."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3a(s3, spark):
    """The bucket's address for Spark, which is configured for the endpoint of `s3`."""
    hadoop_jars("s3a")
    conf = spark._jsc.hadoopConfiguration()
    for key, value in s3.hadoop_options.items():
        conf.set(key, value)
    return "s3a://lake"


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """The address of an HDFS cluster."""
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as address:
        yield address
