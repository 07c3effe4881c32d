"""Google Cloud Storage for tests: fake-gcs-server, which `scripts/object_stores/build.sh` builds."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.http_proxy import Answer, Request
from tests.support.object_stores import program, running, wait_until_ready
from tests.support.ports import free_ports
from tests.support.remote import BUCKET

# Otherwise gcsfs asks for the kind of each bucket by gRPC, which the emulator does not speak.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleStorage:
    """A bucket in the emulator. It enforces conditions on the generation of an object, and checks no credentials."""

    port: int
    bucket: str = BUCKET

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def spark_root(self) -> str:
        """The bucket's address for Spark and workers."""
        return f"gs://{self.bucket}"

    worker_root = spark_root

    @property
    def fsspec_options(self) -> dict[str, Any]:
        """Options for `gcsfs`."""
        return {"token": "anon", "endpoint_url": self.endpoint, "project": "lake"}

    @property
    def bucket_options(self) -> dict[str, str]:
        """Options for Google's connector. They hold for all buckets.

        Hadoop 3.5 selects its own connector and gives it sizes such as `64m`, which Google's connector cannot parse.
        The emulator has no request that moves an object.
        """
        mebibyte = 1024 * 1024
        sizes = {
            "fs.gs.block.size": 64 * mebibyte,
            "fs.gs.rewrite.max.chunk.size": 512 * mebibyte,
            "fs.gs.outputstream.buffer.size": 8 * mebibyte,
            "fs.gs.inputstream.inplace.seek.limit": 8 * mebibyte,
            "fs.gs.inputstream.min.range.request.size": 2 * mebibyte,
        }
        return {key: str(size_bytes) for key, size_bytes in sizes.items()} | {
            "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
            "fs.gs.storage.root.url": f"{self.endpoint}/",
            "fs.gs.client.type": "HTTP_API_CLIENT",
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.project.id": "lake",
            "fs.gs.operation.move.enable": "false",
        }

    @property
    def impatient_bucket_options(self) -> dict[str, str]:
        """Options with which Google's connector repeats a failed request once.

        Its first pause is about 1.25 seconds, and no option makes it shorter.
        """
        return {"fs.gs.http.max.retry": "1"}

    def through(self, proxy_port: int) -> GoogleStorage:
        """The same bucket, behind a proxy on this machine."""
        return replace(self, port=proxy_port)

    def with_new_bucket(self) -> GoogleStorage:
        """Create a bucket with a unique name."""
        storage = replace(self, bucket=f"lake-{uuid.uuid4()}")
        storage.make_bucket()
        return storage

    def make_bucket(self) -> None:
        """Create the bucket."""
        body = json.dumps({"name": self.bucket}).encode()
        self._post("/storage/v1/b?project=lake", body, "application/json")

    def put_objects(self, contents: Mapping[str, bytes]) -> None:
        """Put many objects by their names, sixteen at a time."""
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(self._put_object, contents.items()))

    def keys(self, prefix: str = "") -> list[str]:
        """The names in the bucket below a prefix, up to a thousand."""
        query = urlencode({"prefix": prefix})
        with urllib.request.urlopen(f"{self.endpoint}/storage/v1/b/{self.bucket}/o?{query}") as answer:
            return [item["name"] for item in json.load(answer).get("items", ())]

    def _put_object(self, item: tuple[str, bytes]) -> None:
        query = urlencode({"uploadType": "media", "name": item[0]})
        self._post(f"/upload/storage/v1/b/{self.bucket}/o?{query}", item[1], "application/octet-stream")

    def _post(self, path: str, body: bytes, content_type: str) -> None:
        request = urllib.request.Request(self.endpoint + path, body, {"Content-Type": content_type})
        urllib.request.urlopen(request).close()


class UploadSessions:
    """Answers of a proxy to requests for the status of a resumable upload, as Google documents them.

    A client sends such a request if a request of an upload got no answer. fake-gcs-server cannot answer it. It ends the
    upload, and creates an empty object.

    - The upload has ended: the proxy repeats the answer to its last request.
    - The upload has not ended: the proxy answers 308, without a range. Google's server has no part of the content,
      because the tests upload small objects in one request.
    """

    def __init__(self) -> None:
        self._final_answers: dict[str, Answer] = {}

    def answer_to(self, request: Request) -> Answer | None:
        """Return the status of an upload, or None for any other request."""
        content_range = request.headers.get("content-range", "")
        if request.upload_id is None or not content_range.startswith("bytes */") or content_range == "bytes */0":
            return None
        return self._final_answers.get(request.upload_id, Answer(status=308))

    def record(self, request: Request, answer: Answer) -> None:
        """Record the answer to the last request of an upload."""
        if request.upload_id is not None and answer.status != 308:
            self._final_answers[request.upload_id] = answer


@contextlib.contextmanager
def fake_gcs_server(folder: Path, *, keeps_files: bool = False) -> Iterator[GoogleStorage]:
    """Run the emulator with an empty bucket. With `keeps_files`, it keeps objects as files, and not in memory.

    In memory, the time of a put grows with the number of objects. With files, the emulator cannot create the empty
    objects that mark folders, so Spark cannot write.
    """
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    command = [program("fake_gcs_server/fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-public-host", address, "-log-level", "warn"]
    command += ["-filesystem-root", str(folder / "objects")] if keeps_files else ["-backend", "memory"]
    storage = GoogleStorage(port=port)
    with running(command, folder) as process:
        wait_until_ready(process, folder, storage.make_bucket)
        yield storage
