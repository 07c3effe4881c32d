"""The checkpoint job on a table with a million files, in 2 GB of driver memory, beside delta-rs.

Each side runs as a process of its own on a copy of one log, ours by spark-submit with a driver of 1 GiB, as a task
does: 1 commits of 10,000 files each and no checkpoint; 2 a checkpoint and ten commits behind it, as most tables have;
3 ten thousand old commits of 100 files each, which log cleanup takes away once the checkpoint is there; 4 and 5 are as
1 and 2 with the statistics of 31 columns, two kilobytes a file. Memory is the peak of the job's Java process and that
of its Python process, added up, though they need not fall together. Our time includes the start of a JVM. The logs are
synthetic, made once and kept in `.benchmarks/` (5 GB). A number on the command line is the number of files.
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

from bench_log import beginning
from bench_snapshot import add_of
from measuring import Pair, print_table

from deltalite import jobs
from deltalite.requests import CheckpointRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
MOST_MIB = 2_000_000_000 / 1024**2
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
    """A log to be measured: its name, how many commits of how many files, and which of them a checkpoint stands for."""

    what: str
    commits: int
    files_per_commit: int
    checkpoint_at: int | None = None
    is_old: bool = False
    is_wide: bool = False

    @property
    def table(self) -> Path:
        """Where it is kept."""
        return FOLDER / f"checkpoint-{FILES}-{self.commits}-{self.checkpoint_at}{'-wide' if self.is_wide else ''}"


LOGS = (
    Log(what="commits alone", commits=FILES // 10_000, files_per_commit=10_000),
    Log(what="a checkpoint and ten commits", commits=11, files_per_commit=FILES // 1000, checkpoint_at=0),
    Log(what="old commits, and cleanup", commits=FILES // 100, files_per_commit=100, is_old=True),
    Log(what="commits alone, 31 columns", commits=FILES // 10_000, files_per_commit=10_000, is_wide=True),
    Log(
        what="a checkpoint and ten commits, 31 columns",
        commits=11,
        files_per_commit=FILES // 1000,
        checkpoint_at=0,
        is_wide=True,
    ),
)


def make(log: Log) -> None:
    """Write the log where it is missing."""
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
    """What stands before the files of a commit."""
    yield {"commitInfo": {"timestamp": int(LONG_AGO_S * 1000) + version, "operation": "WRITE", "isBlindAppend": True}}
    if version == 0:
        protocol, metadata = beginning()
        yield protocol
        yield {"metaData": {**metadata["metaData"], "schemaString": wide_schema()}} if log.is_wide else metadata


def adds(log: Log, first: int, count: int) -> Iterator[dict[str, object]]:
    """So many files."""
    for number in range(first, first + count):
        yield {"add": add_of(number) | ({"stats": wide_stats(number)} if log.is_wide else {})}


def wide_schema() -> str:
    """The schema of the wide table: 31 data columns of four types, and the partition column."""
    columns = {**{name: kind for name, (kind, _, _) in wide_bounds(0).items()}, "day": "string"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def wide_stats(number: int) -> str:
    """The statistics of a file of the wide table."""
    bounds = wide_bounds(number)
    stats = {
        "numRecords": 1000,
        "minValues": {name: low for name, (_, low, _) in bounds.items()},
        "maxValues": {name: high for name, (_, _, high) in bounds.items()},
        "nullCount": dict.fromkeys(bounds, number % 7),
    }
    return json.dumps(stats, separators=(",", ":"))


def wide_bounds(number: int) -> dict[str, tuple[str, object, object]]:
    """The type and the bounds of each data column of the wide table."""
    minute = f"{number % 28 + 1:02d}T00:{number % 60:02d}:00.000Z"
    kinds: tuple[tuple[str, object, object], ...] = (
        ("long", number * 1000, number * 1000 + 999),
        ("double", number * 0.25, number * 0.25 + 1000),
        ("string", f"customer-{number % 977:05d}", f"customer-{number % 977 + 5000:05d}"),
        ("timestamp", f"2024-01-{minute}", f"2024-02-{minute}"),
    )
    return {f"column_{at:02d}": kinds[at % len(kinds)] for at in range(31)}


def copied(log: Log, side: str) -> Path:
    """A copy of the log, as old as it says it is."""
    table = FOLDER / f"checkpoint-{side}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(log.table, table)
    for name in (table / "_delta_log").iterdir() if log.is_old else ():
        os.utime(name, (LONG_AGO_S, LONG_AGO_S))
    return table


def ours(table: Path, *, cleans: bool) -> tuple[float, dict[str, float]]:
    """Seconds and peaks of our job, by spark-submit."""
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        request.write_text(CheckpointRequest(table=str(table), log_cleanup=cleans).to_json())
        submit = Path(sys.executable).parent / "spark-submit"
        conf = ("spark.driver.memory=1g", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
        flags = [part for setting in conf for part in ("--conf", setting)]
        return watched([str(submit), "--master", "local[2]", *flags, str(JOB), str(request)])


def delta_rs(table: Path, *, cleans: bool) -> tuple[float, dict[str, float]]:
    """The same of delta-rs."""
    return watched([sys.executable, "-c", DELTA_RS, str(table), "clean" if cleans else ""])


def watched(command: list[str]) -> tuple[float, dict[str, float]]:
    """Run a command: its seconds, and the peak memory in MiB of each program that took part, by name."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    began = time.perf_counter()
    peaks: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(process.pid, peaks, ended))
        watcher.start()
        output = process.communicate()[0]
        seconds = time.perf_counter() - began
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}:\n{output}")
    by_name: dict[str, float] = {}
    for name, mib in peaks.values():
        by_name[name] = max(by_name.get(name, 0), mib)
    return seconds, by_name


def watch(root: int, peaks: dict[int, tuple[str, float]], ended: threading.Event) -> None:
    """Note the high-water mark of a process and all below it, ten times a second."""
    while not ended.wait(0.1):
        for pid in family(root):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            if "VmHWM" in values:
                peaks[pid] = (values["Name"].strip(), int(values["VmHWM"].split()[0]) / 1024)


def family(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for pid in found:
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def measured(log: Log) -> Pair:
    """Both sides on a copy each, once; prints the memory."""
    make(log)
    pair = Pair(name=f"{FILES:,} files, {log.what}", peer="delta-rs", target=3.0)
    sides: tuple[tuple[str, Callable[..., tuple[float, dict[str, float]]], list[float]], ...] = (
        ("ours", ours, pair.ours_s),
        ("delta-rs", delta_rs, pair.peer_s),
    )
    for side, run, times in sides:
        table = copied(log, side)
        seconds, peaks = run(table, cleans=log.is_old)
        times.append(seconds)
        check(table, log, side)
        whole = sum(peaks.values())
        parts = ", ".join(f"{name} {mib:.0f}" for name, mib in sorted(peaks.items()) if mib > 20)
        over = "  OVER" if side == "ours" and whole > MOST_MIB else ""
        print(f"{pair.name}, {side}: peak {whole:.0f} MiB ({parts}), {seconds:.1f} s{over}", flush=True)
        shutil.rmtree(table)
    return pair


def check(table: Path, log: Log, side: str) -> None:
    """Stop where the checkpoint is not there, or not the whole table."""
    snapshot = Snapshot.load(LocalLogStore(str(table)))
    found = snapshot.files_with(["path"]).num_rows
    if found != FILES or snapshot.segment.own_checkpoint is None:
        raise SystemExit(f"{side}: {found} files, checkpoint {snapshot.segment.own_checkpoint}")
    left = len(list((table / "_delta_log").glob("*.json")))
    if log.is_old and left > 1:
        raise SystemExit(f"{side}: {left} commits are left.")


def main() -> None:
    """Each log in turn."""
    print_table([measured(log) for log in LOGS])


if __name__ == "__main__":
    main()
