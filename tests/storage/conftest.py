"""The storage servers of these tests. The first test that requests a server starts it."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.folder_servers import servers_of
from tests.support.google_storage import GoogleStorage, UploadSessions, fake_gcs_server
from tests.support.http_proxy import HttpProxy, http_proxy
from tests.support.object_stores import azurite, seaweedfs
from tests.support.remote import hadoop_jars, hdfs_cluster, s3_server


@pytest.fixture(scope="session")
def s3(pytestconfig):
    """An S3 endpoint with the bucket `lake`."""
    return servers_of(Path(__file__).parent, pytestconfig).enter_context(s3_server())


@pytest.fixture(scope="session")
def s3a(s3, spark):
    """The bucket's address for Spark, which is configured for the endpoint of `s3`."""
    hadoop_jars("s3a")
    set_hadoop_options(spark, s3.hadoop_options)
    return "s3a://lake"


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory, pytestconfig):
    """The address of an HDFS cluster."""
    return servers_of(Path(__file__).parent, pytestconfig).enter_context(hdfs_cluster(tmp_path_factory.mktemp("hdfs")))


@pytest.fixture(params=["hdfs", "s3a"])
def table(request):
    """The address of a table on HDFS, and on S3. Its folder does not exist yet."""
    return f"{request.getfixturevalue(request.param)}/{uuid.uuid4()}/t"


@pytest.fixture(scope="session")
def seaweedfs_server(tmp_path_factory):
    """The S3 endpoint of SeaweedFS, a server for production use."""
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory):
    """A container of Azurite, Microsoft's emulator of Blob Storage, without a hierarchical namespace."""
    hadoop_jars("abfs")
    with azurite(tmp_path_factory.mktemp("azurite")) as container:
        yield container


@pytest.fixture(scope="session")
def google_server(tmp_path_factory):
    """A bucket of fake-gcs-server, an emulator of Google Cloud Storage."""
    with fake_gcs_server(tmp_path_factory.mktemp("google")) as storage:
        yield storage


@pytest.fixture
def google_server_with_files(tmp_path):
    """A bucket of a separate fake-gcs-server for many objects."""
    with fake_gcs_server(tmp_path, keeps_files=True) as storage:
        yield storage


SERVERS = ["seaweedfs_server", "azurite_server", "google_server"]


@pytest.fixture(params=["s3", *(pytest.param(server, marks=pytest.mark.campaign) for server in SERVERS)])
def bucket(request, spark):
    """A new bucket on each object store, for which Spark is configured. `make test` uses the stand-in for S3 only."""
    return new_bucket(request, spark)


@pytest.fixture(params=SERVERS)
def real_bucket(request, spark):
    """A new bucket on each real object store, for which Spark is configured."""
    return new_bucket(request, spark)


@pytest.fixture(params=["seaweedfs_server", "azurite_server", "google_server_with_files"])
def large_bucket(request, spark):
    """A new bucket on each real object store, for many objects. Spark is configured for it."""
    return new_bucket(request, spark)


def new_bucket(request, spark):
    """Create a bucket on the server that the parameter names, and configure Spark for it."""
    hadoop_jars("s3a")
    bucket = request.getfixturevalue(request.param).with_new_bucket()
    set_hadoop_options(spark, bucket.bucket_options)
    return bucket


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedBucket:
    """A bucket whose clients connect through a proxy.

    Attributes:
        bucket: the addresses and options of clients that use the proxy.
        direct: the addresses and options of clients that do not use the proxy.
        proxy: the proxy, which records requests and replaces answers.
    """

    bucket: Any
    direct: Any
    proxy: HttpProxy


@pytest.fixture
def proxied(bucket, spark):
    """A new bucket that Spark reaches through a proxy. Spark's clients give up after a few seconds."""
    stand_in = UploadSessions() if isinstance(bucket, GoogleStorage) else None
    with http_proxy(bucket.port, stand_in) as proxy:
        behind_proxy = bucket.through(proxy.port)
        set_hadoop_options(spark, behind_proxy.bucket_options | behind_proxy.impatient_bucket_options)
        yield ProxiedBucket(bucket=behind_proxy, direct=bucket, proxy=proxy)


def set_hadoop_options(spark, options):
    """Set options of Hadoop for file systems that are opened later."""
    configuration = spark._jsc.hadoopConfiguration()
    for key, value in options.items():
        configuration.set(key, value)
