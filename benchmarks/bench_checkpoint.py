"""The checkpoint job on a table with a million files and 2 GB of memory, compared with delta-rs.

Each side runs as a separate process on a copy of the same log. This library runs through spark-submit with a driver of
1 GiB, as in a task. The benchmark measures these logs:

1. Commits of 10,000 files each, without a checkpoint.
2. A checkpoint and ten commits after it, as in most tables.
3. Ten thousand old commits of 100 files each. Log cleanup deletes them after the checkpoint.
4. Log 1 with the statistics of 31 columns, two kilobytes per file.
5. Log 2 with the statistics of 31 columns.

Memory is the sum of the peaks of the Java process and the Python process. The two peaks may occur at different times.
The time of this library includes the start of a JVM. The logs are synthetic and stay in `.benchmarks/` (5 GB). To
measure another number of files, give it on the command line.
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

from measuring import TimedPair, print_table
from process_tree import process_tree
from synthetic_log import fields_of_add, first_actions

from deltalite import jobs
from deltalite.requests import CheckpointRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
MAX_MIB = 2_000_000_000 / 1024**2
FOLDER = Path(".benchmarks").resolve()
JOB = Path(next(iter(jobs.__path__))) / "checkpoint.py"
OLD_TIME_S = time.time() - 60 * 24 * 3600
DELTA_RS_PROGRAM = """
import sys
import deltalake
table = deltalake.DeltaTable(sys.argv[1])
table.create_checkpoint()
if sys.argv[2] == "clean":
    table.cleanup_metadata()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log to measure.

    `checkpoint_at` is the version of its checkpoint, or None if it has none. If `is_old` is true, log cleanup may
    delete the commits. If `is_wide` is true, the files have the statistics of 31 columns.
    """

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


def write_log(log: Log) -> None:
    """Write the log unless it exists."""
    folder = log.table / "_delta_log"
    last_commit = folder / f"{log.commits - 1:020d}.json"
    if last_commit.exists():
        return
    shutil.rmtree(log.table, ignore_errors=True)
    folder.mkdir(parents=True)
    files_in_first_commit = FILES - (log.commits - 1) * log.files_per_commit
    first_file = 0
    for version in range(log.commits):
        file_count = log.files_per_commit if version else files_in_first_commit
        actions = (*actions_before_adds(log, version), *add_actions(log, first_file, file_count))
        with (folder / f"{version:020d}.json").open("w") as commit:
            commit.writelines(json.dumps(action) + "\n" for action in actions)
        first_file += file_count
        if version == log.checkpoint_at:
            write_checkpoint(Snapshot.load(LocalLogStore(str(log.table))), now_ms=time.time_ns() // 1_000_000)


def actions_before_adds(log: Log, version: int) -> Iterator[dict[str, object]]:
    """Yield the actions of a commit that precede its files. Version 0 also has protocol and metadata."""
    yield {"commitInfo": {"timestamp": int(OLD_TIME_S * 1000) + version, "operation": "WRITE", "isBlindAppend": True}}
    if version == 0:
        protocol, metadata = first_actions()
        yield protocol
        yield {"metaData": {**metadata["metaData"], "schemaString": wide_schema()}} if log.is_wide else metadata


def add_actions(log: Log, first_file: int, count: int) -> Iterator[dict[str, object]]:
    """Yield the `add` actions of `count` files."""
    for number in range(first_file, first_file + count):
        yield {"add": fields_of_add(number) | ({"stats": wide_stats(number)} if log.is_wide else {})}


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
    """Return the type, the minimum and the maximum of each data column in a file of the wide table."""
    day_and_minute = f"{number % 28 + 1:02d}T00:{number % 60:02d}:00.000Z"
    bounds: tuple[tuple[str, object, object], ...] = (
        ("long", number * 1000, number * 1000 + 999),
        ("double", number * 0.25, number * 0.25 + 1000),
        ("string", f"customer-{number % 977:05d}", f"customer-{number % 977 + 5000:05d}"),
        ("timestamp", f"2024-01-{day_and_minute}", f"2024-02-{day_and_minute}"),
    )
    return {f"column_{column:02d}": bounds[column % len(bounds)] for column in range(31)}


def copy_log(log: Log, side: str) -> Path:
    """Copy the log for a side, and return the folder of the new table. Files of an old log get old times."""
    table = FOLDER / f"checkpoint-{side}"
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(log.table, table)
    for file in (table / "_delta_log").iterdir() if log.is_old else ():
        os.utime(file, (OLD_TIME_S, OLD_TIME_S))
    return table


def run_deltalite(table: Path, *, log_cleanup: bool) -> tuple[float, dict[str, float]]:
    """Run this library's job with spark-submit. Return its seconds and memory peaks, as `run_and_measure` does."""
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        request.write_text(CheckpointRequest(table=str(table), log_cleanup=log_cleanup).to_json())
        spark_submit = Path(sys.executable).parent / "spark-submit"
        settings = ("spark.driver.memory=1g", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
        options = [argument for setting in settings for argument in ("--conf", setting)]
        return run_and_measure([str(spark_submit), "--master", "local[2]", *options, str(JOB), str(request)])


def run_delta_rs(table: Path, *, log_cleanup: bool) -> tuple[float, dict[str, float]]:
    """Run delta-rs. Return its seconds and memory peaks, as `run_and_measure` does."""
    return run_and_measure([sys.executable, "-c", DELTA_RS_PROGRAM, str(table), "clean" if log_cleanup else ""])


def run_and_measure(command: list[str]) -> tuple[float, dict[str, float]]:
    """Run a command. Return its seconds, and the peak memory in MiB of each program in its process tree, by name."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = time.perf_counter()
    peaks: dict[int, tuple[str, float]] = {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
    ) as process:
        ended = threading.Event()
        watcher = threading.Thread(target=record_peaks, args=(process.pid, peaks, ended))
        watcher.start()
        output = process.communicate()[0]
        seconds = time.perf_counter() - started
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}:\n{output}")
    peak_mib_by_name: dict[str, float] = {}
    for name, mib in peaks.values():
        peak_mib_by_name[name] = max(peak_mib_by_name.get(name, 0), mib)
    return seconds, peak_mib_by_name


def record_peaks(root_pid: int, peaks: dict[int, tuple[str, float]], ended: threading.Event) -> None:
    """Put the name and the peak memory (MiB) of a process and its descendants into `peaks`, ten times a second."""
    while not ended.wait(0.1):
        for pid in process_tree(root_pid):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
            if "VmHWM" in fields:
                peaks[pid] = (fields["Name"].strip(), int(fields["VmHWM"].split()[0]) / 1024)


def measure(log: Log) -> TimedPair:
    """Run each side once on a separate copy of the log, and print its memory. Return the times."""
    write_log(log)
    pair = TimedPair(name=f"{FILES:,} files, {log.label}", peer="delta-rs", target=1.2)
    sides: tuple[tuple[str, Callable[..., tuple[float, dict[str, float]]], list[float]], ...] = (
        ("deltalite", run_deltalite, pair.deltalite_s),
        ("delta-rs", run_delta_rs, pair.peer_s),
    )
    for side, run_side, times in sides:
        table = copy_log(log, side)
        seconds, peaks = run_side(table, log_cleanup=log.is_old)
        times.append(seconds)
        check_log(table, log, side)
        total_mib = sum(peaks.values())
        programs = ", ".join(f"{name} {mib:.0f}" for name, mib in sorted(peaks.items()) if mib > 20)
        verdict = "  OVER" if side == "deltalite" and total_mib > MAX_MIB else ""
        print(f"{pair.name}, {side}: peak {total_mib:.0f} MiB ({programs}), {seconds:.1f} s{verdict}", flush=True)
        shutil.rmtree(table)
    return pair


def check_log(table: Path, log: Log, side: str) -> None:
    """Exit if the checkpoint is missing or incomplete, or if cleanup left old commits."""
    snapshot = Snapshot.load(LocalLogStore(str(table)))
    num_files = snapshot.files_with(["path"]).num_rows
    if num_files != FILES:
        raise SystemExit(f"{side}: the newest version has {num_files} files instead of {FILES}.")
    if snapshot.segment.checkpoint_at_version is None:
        raise SystemExit(f"{side}: the newest version {snapshot.version} has no checkpoint.")
    remaining = len(list((table / "_delta_log").glob("*.json")))
    if log.is_old and remaining > 1:
        raise SystemExit(f"{side}: the log has {remaining} commits after the cleanup instead of 1.")


def main() -> None:
    """Measure each log, and print a table."""
    print_table([measure(log) for log in LOGS])


if __name__ == "__main__":
    main()
