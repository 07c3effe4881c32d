"""Compares the clients with which workers could read object stores: fsspec's file systems, and obstore.

For each store and client the program counts the requests of a poll and of opening a table through a proxy, and measures
the time of a poll without the proxy. It needs the built servers, and the packages adlfs and obstore in addition to
those of the tests. Run it from the checkout:

    .venv/bin/python -m scripts.object_stores.compare_clients
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from deltalite import watch
from deltalite.conditions import CommitCondition
from deltalite.snapshot import Snapshot
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.storage.log_store import StoredFile
from deltalite.storage.opening import open_store
from tests.support.http_proxy import http_proxy
from tests.support.object_stores import azurite, seaweedfs

POLLS = 300
COMMITS = 25


class ObstoreLogStore(FsspecLogStore):
    """The reads of a poll and of opening a table, by obstore."""

    def __init__(self, root: str, store: Any) -> None:
        super().__init__(root, None)
        self._store = store

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Yield the files in the folder of `name`, from `name` on."""
        folder, _, first = name.rpartition("/")
        for page in self._store.list(folder, offset=f"{folder}/{first}" if first else None):
            for entry in page:
                yield StoredFile(
                    name=entry["path"],
                    size_bytes=entry["size"],
                    modified_ms=int(entry["last_modified"].timestamp() * 1000),
                )

    def read(self, name: str) -> bytes | None:
        """Return the whole file, or None if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return bytes(self._store.get(name).bytes())
        return None

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes, or None if the file does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return bytes(self._store.get_range(name, start=0, end=size_bytes))
        return None


def obstore_of(bucket: Any, prefix: str) -> ObstoreLogStore:
    """Return the log store of a table, with obstore's client. The client takes the options of delta-rs."""
    from obstore.store import from_url

    options = {key.lower(): value for key, value in bucket.delta_rs_options.items() if "allow_http" not in key.lower()}
    url = f"{bucket.delta_rs_root}/{prefix}"
    return ObstoreLogStore(url, from_url(url, config=options, client_options={"allow_http": True}))


def measure(name: str, bucket: Any, open_client: Callable[[Any, str], FsspecLogStore]) -> None:
    """Measure one client on one server, and print a row of the table."""
    with http_proxy(bucket.port) as proxy:
        store = open_client(bucket.through(proxy.port), "t")
        position = watch.position_at(store, COMMITS - 1)
        with proxy.recording() as poll_requests:
            watch.poll(store, position, CommitCondition())
        with proxy.recording() as opening_requests:
            Snapshot.load(store)
    store = open_client(bucket, "t")
    position = watch.position_at(store, COMMITS - 1)
    times, processor_before = [], resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(POLLS):
        start = time.perf_counter()
        watch.poll(store, position, CommitCondition())
        times.append((time.perf_counter() - start) * 1000)
    processor = resource.getrusage(resource.RUSAGE_SELF)
    processor_ms = (
        (processor.ru_utime - processor_before.ru_utime + processor.ru_stime - processor_before.ru_stime) * 1000 / POLLS
    )
    times.sort()
    print(
        f"| {name} | {len(poll_requests)} | {len(opening_requests)} | {statistics.median(times):.1f} ms | "
        f"{times[int(POLLS * 0.95)]:.1f} ms | {processor_ms:.1f} ms |",
        flush=True,
    )


def fsspec_of(bucket: Any, prefix: str) -> FsspecLogStore:
    """Return the log store of a table, with the file system of fsspec."""
    return open_store(f"{bucket.worker_root}/{prefix}", storage_options=bucket.fsspec_options)


def main() -> None:
    """Measure each client on each server, and print a table."""
    print("| store and client | requests: poll | requests: opening | median poll | 95 % | processor time of a poll |")
    print("|---|---|---|---|---|---|")
    for server in (seaweedfs, azurite):
        with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as bucket:
            rows = pa.table({"id": [1]})
            for _ in range(COMMITS):
                address, options = f"{bucket.delta_rs_root}/t", bucket.delta_rs_options
                write_deltalake(address, rows, mode="append", storage_options=options)
            for client in (fsspec_of, obstore_of):
                measure(f"{server.__name__}, {client.__name__.removesuffix('_of')}", bucket, client)


if __name__ == "__main__":
    main()
