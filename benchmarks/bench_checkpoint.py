"""The checkpoint job on a table with a million files and 2 GB of memory, compared with delta-rs.

Each side runs as a separate process on a copy of the same log. This library runs through spark-submit with a driver of
1 GiB, as in a task. The logs:

1. Commits of 10,000 files each, without a checkpoint.
2. A checkpoint and ten commits after it, as in most tables.
3. Ten thousand old commits of 100 files each, which log cleanup deletes after the checkpoint.
4. As 1, with the statistics of 31 columns, two kilobytes per file.
5. As 2, with the statistics of 31 columns.

Memory is the sum of the peaks of the Java and the Python process, which may be at different times. The time of this
library includes the start of a JVM. The logs are synthetic and stay in `.benchmarks/` (5 GB). A number on the command
line is the number of files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench_log import first_actions
from bench_snapshot import add_of
from measuring import Pair, print_table

from deltalite import jobs
from deltalite.requests import CheckpointRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
MAX_MIB = 2_000_000_000 / 1024**2
FOLDER = Path(".benchmarks").resolve()
JOB = Path(next(iter(jobs.__path__))) / "checkpoint.py"
LONG_AGO_S = time.time() - 60 * 24 * 3600
DELTA_RS = """
import sys
import deltalake
table = deltalake.DeltaTable(sys.argv[1])
table.create_checkpoint()
if sys.argv[2] == "clean":
    table.cleanup_metadata()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log to measure: its name, its commits and files, and the version of its checkpoint (None without one)."""

    label: str
    commits: int
    files_per_commit: int
    checkpoint_at: int | None = None
    is_old: bool = False
    is_wide: bool = False

    @property
    def table(self) -> Path:
        """The folder of the table."""
        return FOLDER / f"checkpoint-{FILES}-{self.commits}-{self.checkpoint_at}{'-wide' if self.is_wide else ''}"


LOGS = (
    Log(label="commits alone", commits=FILES // 10_000, files_per_commit=10_000),
    Log(label="a checkpoint and ten commits", commits=11, files_per_commit=FILES // 1000, checkpoint_at=0),
    Log(label="old commits, and cleanup", commits=FILES // 100, files_per_commit=100, is_old=True),
    Log(label="commits alone, 31 columns", commits=FILES // 10_000, files_per_commit=10_000, is_wide=True),
    Log(
        label="a checkpoint and ten commits, 31 columns",
        commits=11,
        files_per_commit=FILES // 1000,
        checkpoint_at=0,
        is_wide=True,
    ),
)


def make(log: Log) -> None:
    """Write the log unless it exists."""
    folder = log.table / "_delta_log"
    last = folder / f"{log.commits - 1:020d}.json"
    if last.exists():
        return
    shutil.rmtree(log.table, ignore_errors=True)
    folder.mkdir(parents=True)
    in_first = FILES - (log.commits - 1) * log.files_per_commit
    number = 0
    for version in range(log.commits):
        name, count = folder / f"{version:020d}.json", log.files_per_commit if version else in_first
        with name.open("w") as file:
            file.writelines(json.dumps(action) + "\n" for action in (*head(log, version), *adds(log, number, count)))
        number += count
        if version == log.checkpoint_at:
            write_checkpoint(Snapshot.load(LocalLogStore(str(log.table))), now_ms=time.time_ns() // 1_000_000)


def head(log: Log, version: int) -> Iterator[dict[str, object]]:
    """Yield the actions before the files of a commit."""
    yield {"commitInfo": {"timestamp": int(LONG_AGO_S * 1000) + version, "operation": "WRITE", "isBlindAppend": True}}
    if version == 0:
        protocol, metadata = first_actions()
        yield protocol
        yield {"metaData": {**metadata["metaData"], "schemaString": wide_schema()}} if log.is_wide else metadata


def adds(log: Log, first: int, count: int) -> Iterator[dict[str, object]]:
    """Yield the `add` actions of `count` files."""
    for number in range(first, first + count):
        yield {"add": add_of(number) | ({"stats": wide_stats(number)} if log.is_wide else {})}


def wide_schema() -> str:
    """Return the schema of the wide table: 31 data columns of four types, and the partition column."""
    columns = {**{name: kind for name, (kind, _, _) in wide_bounds(0).items()}, "day": "string"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def wide_stats(number: int) -> str:
    """Return the statistics of a file of the wide table."""
    bounds = wide_bounds(number)
    stats = {
        "numRecords": 1000,
        "minValues": {name: low for name, (_, low, _) in bounds.items()},
        "maxValues": {name: high for name, (_, _, high) in bounds.items()},
        "nullCount": dict.fromkeys(bounds, number % 7),
    }
    return json.dumps(stats, separators=(",", ":"))


def wide_bounds(number: int) -> dict[str, tuple[str, object, object]]:
    """Return the type and the bounds of each data column of the wide table."""
    minute = f"{number % 28 + 1:02d}T00:{number % 60:02d}:00.000Z"
    kinds: tuple[tuple[str, object, object], ...] = (
        ("long", number * 1000, number * 1000 + 999),
        ("double", number * 0.25, number * 0.25 + 1000),
        ("string", f"customer-{number % 977:05d}", f"customer-{number % 977 + 5000:05d}"),
        ("timestamp", f"2024-01-{minute}", f"2024-02-{minute}"),
    )
    return {f"column_{at:02d}": kinds[at % len(kinds)] for at in range(31)}


def copy_log(log: Log, side: str) -> Path:
    """Copy the log; the files of an old log get old modification times."""
    table = FOLDER / f"checkpoint-{side}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(log.table, table)
    for name in (table / "_delta_log").iterdir() if log.is_old else ():
        os.utime(name, (LONG_AGO_S, LONG_AGO_S))
    return table


def ours(table: Path, *, cleans: bool) -> tuple[float, dict[str, float]]:
    """Run this library's job with spark-submit; return its seconds and peaks of memory."""
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        request.write_text(CheckpointRequest(table=str(table), log_cleanup=cleans).to_json())
        submit = Path(sys.executable).parent / "spark-submit"
        conf = ("spark.driver.memory=1g", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
        flags = [part for setting in conf for part in ("--conf", setting)]
        return run_watched([str(submit), "--master", "local[2]", *flags, str(JOB), str(request)])


def delta_rs(table: Path, *, cleans: bool) -> tuple[float, dict[str, float]]:
    """Run delta-rs; return its seconds and peaks of memory."""
    return run_watched([sys.executable, "-c", DELTA_RS, str(table), "clean" if cleans else ""])


def run_watched(command: list[str]) -> tuple[float, dict[str, float]]:
    """Run a command; return its seconds, and the peak memory in MiB of each program in its process tree, by name."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = time.perf_counter()
    peaks: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(process.pid, peaks, ended))
        watcher.start()
        output = process.communicate()[0]
        seconds = time.perf_counter() - started
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}:\n{output}")
    peak_mib_by_name: dict[str, float] = {}
    for name, mib in peaks.values():
        peak_mib_by_name[name] = max(peak_mib_by_name.get(name, 0), mib)
    return seconds, peak_mib_by_name


def watch(root: int, peaks: dict[int, tuple[str, float]], ended: threading.Event) -> None:
    """Record the peak memory of a process and its descendants, ten times a second."""
    while not ended.wait(0.1):
        for pid in process_tree(root):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            if "VmHWM" in values:
                peaks[pid] = (values["Name"].strip(), int(values["VmHWM"].split()[0]) / 1024)


def process_tree(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    pids = [root]
    for pid in pids:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return pids


def measure(log: Log) -> Pair:
    """Run each side once on a separate copy, and print its memory."""
    make(log)
    pair = Pair(name=f"{FILES:,} files, {log.label}", peer="delta-rs", target=3.0)
    sides: tuple[tuple[str, Callable[..., tuple[float, dict[str, float]]], list[float]], ...] = (
        ("ours", ours, pair.ours_s),
        ("delta-rs", delta_rs, pair.peer_s),
    )
    for side, run, times in sides:
        table = copy_log(log, side)
        seconds, peaks = run(table, cleans=log.is_old)
        times.append(seconds)
        check(table, log, side)
        total = sum(peaks.values())
        parts = ", ".join(f"{name} {mib:.0f}" for name, mib in sorted(peaks.items()) if mib > 20)
        verdict = "  OVER" if side == "ours" and total > MAX_MIB else ""
        print(f"{pair.name}, {side}: peak {total:.0f} MiB ({parts}), {seconds:.1f} s{verdict}", flush=True)
        shutil.rmtree(table)
    return pair


def check(table: Path, log: Log, side: str) -> None:
    """Exit if the checkpoint is missing or incomplete, or if cleanup left old commits."""
    snapshot = Snapshot.load(LocalLogStore(str(table)))
    num_files = snapshot.files_with(["path"]).num_rows
    if num_files != FILES or snapshot.segment.own_checkpoint is None:
        raise SystemExit(
            f"{side}: the newest version has {num_files} files instead of {FILES}, "
            f"and the checkpoint {snapshot.segment.own_checkpoint}."
        )
    remaining = len(list((table / "_delta_log").glob("*.json")))
    if log.is_old and remaining > 1:
        raise SystemExit(f"{side}: {remaining} commits are left.")


def main() -> None:
    """Measure each log."""
    print_table([measure(log) for log in LOGS])


if __name__ == "__main__":
    main()
