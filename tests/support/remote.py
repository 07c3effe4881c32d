"""Storage servers for tests: S3 in a Python process, and HDFS in a JVM with Hadoop's minicluster."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.java_options import QUICK_JVM_OPTIONS
from tests.support.required import skip_or_fail

CHECKOUT = Path(__file__).resolve().parents[2]
HADOOP = CHECKOUT / ".hadoop"
BUCKET = "lake"
_START_TIMEOUT_SECONDS = 90


def hadoop_jars(part: str) -> list[str]:
    """The jars that `scripts/fetch_hadoop.sh` downloaded to the folder `part`, such as `s3a`.

    Skips or fails the test if they are missing.
    """
    if not (HADOOP / ".done").exists():
        skip_or_fail("Hadoop's jars are not in .hadoop: run scripts/fetch_hadoop.sh, which needs Maven.")
    return sorted(str(jar) for jar in (HADOOP / part).glob("*.jar"))


def session_options(hadoop: dict[str, str]) -> dict[str, str]:
    """Settings of a small Spark session with the S3A connector and these Hadoop options."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(hadoop_jars("s3a")),
        "spark.ui.enabled": "false",
    } | {f"spark.hadoop.{key}": value for key, value in hadoop.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3:
    """An S3 endpoint with one bucket, and an access key for it."""

    endpoint: str
    bucket: str = BUCKET
    key: str = "key"
    secret: str = "secret"

    @property
    def spark_root(self) -> str:
        """The bucket's address for Spark."""
        return f"s3a://{self.bucket}"

    @property
    def worker_root(self) -> str:
        """The bucket's address for workers and for delta-rs."""
        return f"s3://{self.bucket}"

    delta_rs_root = worker_root

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        return urlsplit(self.endpoint).port or 80

    def through(self, proxy_port: int) -> S3:
        """The same bucket, behind a proxy on this machine."""
        return dataclasses.replace(self, endpoint=f"http://127.0.0.1:{proxy_port}")

    def with_new_bucket(self) -> S3:
        """Create a bucket with a unique name. Spark has settings and a cached client for each bucket."""
        s3 = dataclasses.replace(self, bucket=f"lake-{uuid.uuid4()}")
        s3.client.create_bucket(Bucket=s3.bucket)
        return s3

    @property
    def client(self) -> Any:
        """A botocore client."""
        import botocore.session

        return botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    @property
    def fsspec_options(self) -> dict[str, Any]:
        """Options for `s3fs`."""
        return {"key": self.key, "secret": self.secret, "endpoint_url": self.endpoint}

    def airflow_connection(self, key: str | None = None, secret: str | None = None) -> dict[str, Any]:
        """The JSON object of an Airflow connection to this endpoint, by default with the access key of this object."""
        extra = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        return {"conn_type": "aws", "login": key or self.key, "password": secret or self.secret, "extra": extra}

    @property
    def delta_rs_options(self) -> dict[str, str]:
        """Options for `deltalake`."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def hadoop_options(self) -> dict[str, str]:
        """Options for Hadoop's S3A."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": self.key,
            "fs.s3a.secret.key": self.secret,
            "fs.s3a.path.style.access": "true",
        }

    @property
    def bucket_options(self) -> dict[str, str]:
        """`hadoop_options` for this bucket only, because a Spark session may use buckets of several endpoints."""
        return {
            key.replace("fs.s3a.", f"fs.s3a.bucket.{self.bucket}."): value for key, value in self.hadoop_options.items()
        }

    @property
    def impatient_bucket_options(self) -> dict[str, str]:
        """Options for this bucket, with which S3A repeats a failed request three times within a second."""
        options = {
            "attempts.maximum": "1",  # of the SDK below S3A
            "retry.limit": "3",
            "retry.interval": "50ms",
            "retry.throttle.limit": "3",
            "retry.throttle.interval": "50ms",
        }
        return {f"fs.s3a.bucket.{self.bucket}.{key}": value for key, value in options.items()}

    def put_objects(self, contents: Mapping[str, bytes]) -> None:
        """Put many objects by their keys. Arrow's client is several times as fast as `client`."""
        from pyarrow.fs import S3FileSystem

        host = urlsplit(self.endpoint).netloc
        credentials = {"access_key": self.key, "secret_key": self.secret, "region": "us-east-1"}
        storage = S3FileSystem(endpoint_override=host, scheme="http", allow_delayed_open=True, **credentials)

        def put(item: tuple[str, bytes]) -> None:
            with storage.open_output_stream(f"{self.bucket}/{item[0]}") as stream:
                stream.write(item[1])

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(put, contents.items()))

    def keys(self, prefix: str = "") -> list[str]:
        """The keys in the bucket below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [stored_object["Key"] for page in pages for stored_object in page.get("Contents", ())]


@contextlib.contextmanager
def s3_server(*arguments: str) -> Iterator[S3]:
    """Run an S3 server with an empty bucket; `arguments` are those of `s3_server.py`."""
    program = Path(__file__).with_name("s3_server.py")
    with subprocess.Popen(
        [sys.executable, str(program), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            s3 = S3(endpoint=f"http://127.0.0.1:{int(process.stdout.readline())}")
            s3.client.create_bucket(Bucket=s3.bucket)
            yield s3
        finally:
            process.stdin.close()


@contextlib.contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """Run an HDFS cluster in `folder`; yields its address."""
    details = folder / "details.json"
    command = ["java", "-Xmx384m", *QUICK_JVM_OPTIONS.split(), "-cp", os.pathsep.join(hadoop_jars("hdfs"))]
    command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format"]
    command += ["-writeDetails", str(details), "-D", f"hadoop.tmp.dir={folder / 'tmp'}", "-D", "dfs.replication=1"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + _START_TIMEOUT_SECONDS
            while not (details.exists() and details.read_text().endswith("}")):
                assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.1)
            yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
        finally:
            process.kill()
