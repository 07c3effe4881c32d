"""Time and memory of a restore of a table with a million files, compared with delta-rs.

1. All files are restored, after an overwrite.
2. A hundred files are restored, after a load that replaced them; the others stay.

Each side runs as a separate process on the same table, and the benchmark removes the commit of the restore afterwards.
The time includes opening the table; memory is the peak of the process. The files are hard links to a few small ones, a
thousand in each partition's folder. The log is synthetic: a checkpoint and one commit. Both stay in `.benchmarks/`. A
number on the command line is the number of files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench_log import first_actions
from measuring import Pair, print_table

from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
FEW = 100
ROUNDS = 2
PER_FOLDER = 1_000
MAX_LINKS = 30_000
FOLDER = Path(".benchmarks").resolve()
NOW_MS = 1_800_000_000_000
PROGRAM = """
import sys, time
import pyarrow
pyarrow.array([{{}}])  # loads pandas if it is installed
{imports}
began = time.perf_counter()
{restore}
seconds = time.perf_counter() - began
print(seconds, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024)
"""
OURS = PROGRAM.format(
    imports="from deltalite.commands.restore import restore\nfrom deltalite.requests import RestoreRequest",
    restore="restore(None, RestoreRequest(table=sys.argv[1], version=0))",
)
DELTA_RS = PROGRAM.format(imports="import deltalake", restore="deltalake.DeltaTable(sys.argv[1]).restore(0)")


def add_of(number: int) -> dict[str, object]:
    """Return the `add` of a file."""
    day = f"d{number // PER_FOLDER:06d}"
    stats = {"numRecords": 1000, "minValues": {"id": number}, "maxValues": {"id": number + 999}, "nullCount": {"id": 0}}
    name = f"day={day}/part-{number:08d}-5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d.c000.snappy.parquet"
    return {"path": name, "partitionValues": {"day": day}, "size": 10, "modificationTime": NOW_MS, "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":"))}  # fmt: skip


def make_table(removed: int) -> Path:
    """Make a table whose version 1 removed this many files, unless it exists."""
    table = FOLDER / f"restore-{FILES}-{removed}"
    log = table / "_delta_log"
    if (log / f"{1:020d}.json").exists():
        return table
    shutil.rmtree(table, ignore_errors=True)
    log.mkdir(parents=True)
    adds = [add_of(number) for number in range(FILES)]
    for number, add in enumerate(adds):
        name, source = table / str(add["path"]), table / f"_{number // MAX_LINKS}"
        if number % PER_FOLDER == 0:
            name.parent.mkdir()
        if number % MAX_LINKS == 0:
            source.write_bytes(b"0123456789")
        os.link(source, name)
    write(log, 0, [*first_actions(), *({"add": add} for add in adds)])
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=NOW_MS)
    remove_fields = {"deletionTimestamp": NOW_MS, "dataChange": True, "extendedFileMetadata": True}
    add_fields = ("path", "partitionValues", "size")
    removes = ({"remove": {key: add[key] for key in add_fields} | remove_fields} for add in adds[:: FILES // removed])
    write(log, 1, removes)
    return table


def write(log: Path, version: int, actions: Iterable[object]) -> None:
    """Write a commit."""
    with (log / f"{version:020d}.json").open("w") as file:
        file.write(json.dumps({"commitInfo": {"timestamp": NOW_MS + version, "operation": "WRITE"}}) + "\n")
        file.writelines(json.dumps(action) + "\n" for action in actions)


def measure(removed: int, label: str) -> Pair:
    """Measure both sides on one table, and print the memory."""
    table = make_table(removed)
    pair = Pair(name=f"{FILES:,} files, {label}", peer="delta-rs", target=1.5)
    for _ in range(ROUNDS):
        for side, program, times in (("ours", OURS, pair.ours_s), ("delta-rs", DELTA_RS, pair.peer_s)):
            process = subprocess.run(
                [sys.executable, "-c", program, str(table)], check=True, capture_output=True, text=True
            )
            seconds, mib = process.stdout.split()[-2:]
            times.append(float(seconds))
            check(table, side)
            print(f"{pair.name}, {side}: {float(seconds):.1f} s, peak {mib} MiB", flush=True)
            for name in (table / "_delta_log").glob(f"{2:020d}*"):
                name.unlink()
    return pair


def check(table: Path, side: str) -> None:
    """Exit if not all files were restored."""
    num_files = Snapshot.load(LocalLogStore(str(table)), 2).files_with(["path"]).num_rows
    if num_files != FILES:
        raise SystemExit(f"{side}: the restored version has {num_files} files instead of {FILES}.")


def main() -> None:
    """Measure both restores."""
    print_table([measure(FILES, "all restored"), measure(FEW, f"{FEW} restored")])


if __name__ == "__main__":
    main()
