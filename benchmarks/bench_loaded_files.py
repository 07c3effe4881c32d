"""The lookup among 10 million loaded files: time and memory, for listings of several sizes.

Run: `.venv/bin/python benchmarks/bench_loaded_files.py [FILES]`. Each lookup runs in a new process. The memory is the
growth of the process's peak over its size before the lookup, so the benchmark needs Linux.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltalite.loaded_files.keys import FILES
from deltalite.loaded_files.manifest import Manifest, read_manifest
from deltalite.loaded_files.record import add_loaded_files, find_loaded
from deltalite.storage.local import LocalLogStore

ALL_FILES = 10_000_000
FILES_PER_RUN = 500_000
START_MS, STEP_MS = 1_760_000_000_000, 1_000


def files(numbers: Iterable[int], *, same_time: bool = False) -> pa.Table:
    """Return the files with these numbers; one file is written each second, or all of them in the same second."""
    numbers = np.fromiter(numbers, np.int64)
    addresses = [f"s3://landing/orders/hour={n // 3600:06}/part-{n:010}-c000.json.gz" for n in numbers.tolist()]
    times = np.full(len(numbers), START_MS) if same_time else START_MS + numbers * STEP_MS
    columns = [pa.array(addresses), pa.array(numbers % 100_000), pa.array(times), pa.nulls(len(numbers), pa.string())]
    return pa.table(columns, schema=FILES)


def build(root: str, count: int, *, same_time: bool) -> tuple[Manifest, list[float]]:
    """Record `count` files in runs, and return the manifest and the seconds of each run."""
    store, manifest, seconds = LocalLogStore(root), Manifest(), []
    for start in range(0, count, FILES_PER_RUN):
        new_files = files(range(start, min(start + FILES_PER_RUN, count)), same_time=same_time)
        begin = time.perf_counter()
        manifest = add_loaded_files(store, manifest, new_files, loaded_ms=START_MS)
        seconds.append(time.perf_counter() - begin)
    return manifest, seconds


def look_up(
    root: str, manifest_number: int, listing: Iterable[int], connection: Connection, *, same_time: bool
) -> None:
    """Look up the files of a listing. Send the seconds, the growth of memory in MB, and the number of loaded files."""
    store = LocalLogStore(root)
    candidates = files(listing, same_time=same_time)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = memory_kb("VmRSS")
    begin = time.perf_counter()
    is_loaded = find_loaded(store, read_manifest(store, manifest_number), candidates)
    seconds = time.perf_counter() - begin
    connection.send((seconds, (memory_kb("VmHWM") - before) / 1024, int(is_loaded.sum())))


def memory_kb(name: str) -> int:
    """Return a size of this process from `/proc`: `VmRSS` (now) or `VmHWM` (the peak)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main(count: int) -> None:
    """Build two records, and print each lookup."""
    spawning = multiprocessing.get_context("spawn")
    for same_time in (False, True):
        with tempfile.TemporaryDirectory() as root:
            manifest, seconds = build(root, count, same_time=same_time)
            size_mb = sum(segment.size_bytes for segment in manifest.segments) / 1e6
            kind = "in one second" if same_time else "one each second"
            print(
                f"{count} files, written {kind}: {len(manifest.segments)} segments, {size_mb:.0f} MB; "
                f"{sum(seconds):.0f} s to record, {max(seconds):.1f} s for the slowest of {len(seconds)} runs"
            )
            listings = {
                "1,000 new files": range(count, count + 1_000),
                "the last 10,000 files and 1,000 new ones": range(count - 10_000, count + 1_000),
                "100,000 files of all times": range(0, count, max(count // 100_000, 1)),
                "1,000,000 files of all times": range(0, count, max(count // 1_000_000, 1)),
                "all files": range(count),
            }
            for name, listing in listings.items():
                receiver, sender = spawning.Pipe(duplex=False)
                process = spawning.Process(
                    target=look_up, args=(root, manifest.number, listing, sender), kwargs={"same_time": same_time}
                )
                process.start()
                looked_up_s, memory_mb, loaded = receiver.recv()
                process.join()
                print(f"  {name:42} {looked_up_s:7.2f} s {memory_mb:7.0f} MB {loaded:10} loaded")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ALL_FILES)
