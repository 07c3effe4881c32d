"""Real servers of object stores for tests, which `scripts/object_stores/build.sh` builds from package registries.

Each server is one process without a container, on ports of the loopback interface. It keeps its data in a folder of
the test, and ends with the block.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports
from tests.support.remote import BUCKET, CHECKOUT, S3
from tests.support.required import skip_or_fail

BUILT = CHECKOUT / ".object_stores"
_START_TIMEOUT_SECONDS = 120


def program(name: str) -> str:
    """The path of a built program. Skips or fails the test if it is missing."""
    path = BUILT / name
    if not path.exists():
        skip_or_fail(f"{name} is not in .object_stores: run scripts/object_stores/build.sh, which needs Go and npm.")
    return str(path)


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server. Its output goes to the file `log` in the folder."""
    with (folder / "log").open("w") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[bytes], folder: Path, attempt: Any) -> None:
    """Repeat `attempt` until it raises no error."""
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while True:
        try:
            attempt()
        except Exception:  # noqa: BLE001  the errors of each client
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        else:
            return


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[S3]:
    """Run SeaweedFS: master, volume server, filer and S3 gateway, with an empty bucket."""
    parts = ("master", "volume", "filer", "s3")
    ports = free_ports(2 * len(parts))
    command = [program("seaweedfs/weed"), "-logtostderr", "server", "-dir", str(folder), "-ip", "127.0.0.1"]
    command += ["-ip.bind", "127.0.0.1", "-filer", "-s3", "-master.telemetry=false", "-volume.max", "200"]
    command += ["-master.volumeSizeLimitMB", "64", "-master.electionTimeout", "1s", "-s3.config", str(folder / "keys")]
    for part, port, grpc_port in zip(parts, ports[::2], ports[1::2], strict=True):
        command += [f"-{part}.port", str(port), f"-{part}.port.grpc", str(grpc_port)]
    s3 = S3(endpoint=f"http://127.0.0.1:{ports[-2]}")
    credentials = [{"accessKey": s3.key, "secretKey": s3.secret}]
    identity = {"name": "lake", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    (folder / "keys").write_text(json.dumps({"identities": [identity]}))
    with running(command, folder) as process:
        wait_until_ready(process, folder, lambda: s3.client.create_bucket(Bucket=s3.bucket))
        yield s3


@dataclass(frozen=True, slots=True, kw_only=True)
class Azure:
    """A container in the Blob Storage of an emulator, whose account has no hierarchical namespace."""

    port: int
    bucket: str = BUCKET
    account: str = "devstoreaccount1"
    key: str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's

    @property
    def spark_root(self) -> str:
        """The container's address for Spark and workers."""
        return f"abfs://{self.bucket}@{self.account}.dfs.core.windows.net"

    worker_root = spark_root

    @property
    def delta_rs_root(self) -> str:
        """The container's address for delta-rs and obstore."""
        return f"az://{self.bucket}"

    def through(self, proxy_port: int) -> Azure:
        """The same container, behind a proxy on this machine."""
        return replace(self, port=proxy_port)

    def with_new_bucket(self) -> Azure:
        """Create a container with a unique name."""
        container = replace(self, bucket=f"lake-{uuid.uuid4()}")
        container.make_bucket()
        return container

    @property
    def connection_string(self) -> str:
        """The text with which Azure's SDK connects."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};"
            f"BlobEndpoint=http://127.0.0.1:{self.port}/{self.account};"
        )

    @property
    def client(self) -> Any:
        """The container's client."""
        from azure.storage.blob import ContainerClient

        return ContainerClient.from_connection_string(self.connection_string, self.bucket)

    def make_bucket(self) -> None:
        """Create the container."""
        with self.client as client:
            client.create_container()

    @property
    def fsspec_options(self) -> dict[str, Any]:
        """Options for `adlfs`."""
        return {"connection_string": self.connection_string}

    @property
    def delta_rs_options(self) -> dict[str, str]:
        """Options for `deltalake`."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{self.account}",
            "AZURE_ALLOW_HTTP": "true",
        }

    @property
    def bucket_options(self) -> dict[str, str]:
        """Options for Hadoop's ABFS. They hold for all containers of the account."""
        return {
            "fs.azure.abfs.endpoint": f"127.0.0.1:{self.port}",
            "fs.azure.always.use.https": "false",
            f"fs.azure.account.key.{self.account}.dfs.core.windows.net": self.key,
            f"fs.azure.account.key.{self.account}.blob.core.windows.net": self.key,
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # the default library needs HTTPS
        }

    @property
    def impatient_bucket_options(self) -> dict[str, str]:
        """Options with which ABFS repeats a failed request three times within a second."""
        return {
            "fs.azure.io.retry.max.retries": "3",
            "fs.azure.io.retry.min.backoff.interval": "50",
            "fs.azure.io.retry.max.backoff.interval": "100",
            "fs.azure.io.retry.backoff.interval": "50",
        }

    def put_objects(self, contents: Mapping[str, bytes]) -> None:
        """Put many objects by their names, sixteen at a time."""
        with self.client as client, ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda item: client.upload_blob(item[0], item[1]), contents.items()))

    def keys(self, prefix: str = "") -> list[str]:
        """The names in the container below a prefix."""
        with self.client as client:
            return [str(blob.name) for blob in client.list_blobs(name_starts_with=prefix)]


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[Azure]:
    """Run Azurite's Blob Storage, with an empty container."""
    (port,) = free_ports(1)
    command = ["node", program("azurite/node_modules/azurite/dist/src/blob/main.js"), "--location", str(folder)]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--disableTelemetry"]
    command += ["--skipApiVersionCheck"]
    container = Azure(port=port)
    with running(command, folder) as process:
        wait_until_ready(process, folder, container.make_bucket)
        yield container
