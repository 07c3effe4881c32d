"""Storage servers for tests: S3 in a Python process, and HDFS in a JVM with Hadoop's minicluster."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """An S3 endpoint with one bucket."""

    endpoint: str

    @property
    def client(self) -> Any:
        """A botocore client."""
        import botocore.session

        return botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )

    @property
    def fsspec_options(self) -> dict[str, Any]:
        """Options for `s3fs`."""
        return {"key": "key", "secret": "secret", "endpoint_url": self.endpoint}

    def airflow_connection(self, key: str = "key", secret: str = "secret") -> dict[str, Any]:
        """The JSON object of an Airflow connection to this endpoint."""
        extra = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        return {"conn_type": "aws", "login": key, "password": secret, "extra": extra}

    @property
    def delta_rs_options(self) -> dict[str, str]:
        """Options for `deltalake`."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
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
            "fs.s3a.access.key": "key",
            "fs.s3a.secret.key": "secret",
            "fs.s3a.path.style.access": "true",
        }

    def keys(self, prefix: str = "") -> list[str]:
        """The keys in the bucket below a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
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
            s3.client.create_bucket(Bucket=BUCKET)
            yield s3
        finally:
            process.stdin.close()


@contextlib.contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """Run an HDFS cluster in `folder`; yields its address."""
    details = folder / "details.json"
    command = ["java", "-Xmx384m", "-cp", os.pathsep.join(hadoop_jars("hdfs"))]
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
