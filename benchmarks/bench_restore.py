"""Time and memory of a restore of a table with a million files, compared with delta-rs.

The benchmark measures two restores:

1. All files come back, after an overwrite.
2. A hundred files come back, after a load that replaced them. The table still has all other files.

Each side runs as a separate process on the same table, and the benchmark removes the commit of the restore afterwards.
The time includes opening the table. Memory is the peak of the process. The files are hard links to a few small files, a
thousand in each partition's folder. The log is synthetic: a checkpoint and one commit. Files and log stay in
`.benchmarks/`. To measure another number of files, give it on the command line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from measuring import TimedPair, print_table
from synthetic_log import first_actions

from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
FEW_FILES = 100
ROUNDS = 2
FILES_PER_FOLDER = 1_000
# The number of hard links to one file. It is below the limits of common file systems.
MAX_LINKS = 30_000
FOLDER = Path(".benchmarks").resolve()
NOW_MS = 1_800_000_000_000
PROGRAM = """
import sys, time
import pyarrow
pyarrow.array([{{}}])  # this call loads pandas, if it is installed, before the measurement
{imports}
started = time.perf_counter()
{restore}
seconds = time.perf_counter() - started
peak_mib = int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024
print(seconds, peak_mib)
"""
DELTALITE_PROGRAM = PROGRAM.format(
    imports="from deltalite.commands.restore import restore\nfrom deltalite.requests import RestoreRequest",
    restore="restore(None, RestoreRequest(table=sys.argv[1], version=0))",
)
DELTA_RS_PROGRAM = PROGRAM.format(imports="import deltalake", restore="deltalake.DeltaTable(sys.argv[1]).restore(0)")


def fields_of_add(number: int) -> dict[str, object]:
    """Return the fields of the `add` action of a file."""
    day = f"d{number // FILES_PER_FOLDER:06d}"
    stats = {"numRecords": 1000, "minValues": {"id": number}, "maxValues": {"id": number + 999}, "nullCount": {"id": 0}}
    path = f"day={day}/part-{number:08d}-5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d.c000.snappy.parquet"
    return {"path": path, "partitionValues": {"day": day}, "size": 10, "modificationTime": NOW_MS, "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":"))}  # fmt: skip


def make_table(num_removed: int) -> Path:
    """Make a table unless it exists, and return its folder. Version 1 of the table removes `num_removed` files."""
    table = FOLDER / f"restore-{FILES}-{num_removed}"
    log = table / "_delta_log"
    if (log / f"{1:020d}.json").exists():
        return table
    shutil.rmtree(table, ignore_errors=True)
    log.mkdir(parents=True)
    adds = [fields_of_add(number) for number in range(FILES)]
    for number, add in enumerate(adds):
        file, link_target = table / str(add["path"]), table / f"_{number // MAX_LINKS}"
        if number % FILES_PER_FOLDER == 0:
            file.parent.mkdir()
        if number % MAX_LINKS == 0:
            link_target.write_bytes(b"0123456789")
        os.link(link_target, file)
    write_commit(log, 0, [*first_actions(), *({"add": add} for add in adds)])
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=NOW_MS)
    remove_fields = {"deletionTimestamp": NOW_MS, "dataChange": True, "extendedFileMetadata": True}
    copied_fields = ("path", "partitionValues", "size")
    removed_adds = adds[:: FILES // num_removed]
    removes = ({"remove": {key: add[key] for key in copied_fields} | remove_fields} for add in removed_adds)
    write_commit(log, 1, removes)
    return table


def write_commit(log: Path, version: int, actions: Iterable[object]) -> None:
    """Write a commit with provenance and these actions."""
    with (log / f"{version:020d}.json").open("w") as file:
        file.write(json.dumps({"commitInfo": {"timestamp": NOW_MS + version, "operation": "WRITE"}}) + "\n")
        file.writelines(json.dumps(action) + "\n" for action in actions)


def measure(num_removed: int, label: str) -> TimedPair:
    """Measure both sides on one table, and print their memory. Return the times."""
    table = make_table(num_removed)
    pair = TimedPair(name=f"{FILES:,} files, {label}", peer="delta-rs", target=1.5)
    sides = (("deltalite", DELTALITE_PROGRAM, pair.deltalite_s), ("delta-rs", DELTA_RS_PROGRAM, pair.peer_s))
    for _ in range(ROUNDS):
        for side, program, times in sides:
            process = subprocess.run(
                [sys.executable, "-c", program, str(table)], check=True, capture_output=True, text=True
            )
            seconds, peak_mib = process.stdout.split()[-2:]
            times.append(float(seconds))
            check_restored_files(table, side)
            print(f"{pair.name}, {side}: {float(seconds):.1f} s, peak {peak_mib} MiB", flush=True)
            for file in (table / "_delta_log").glob(f"{2:020d}*"):
                file.unlink()
    return pair


def check_restored_files(table: Path, side: str) -> None:
    """Exit if the restored version lacks files."""
    num_files = Snapshot.load(LocalLogStore(str(table)), 2).files_with(["path"]).num_rows
    if num_files != FILES:
        raise SystemExit(f"{side}: the restored version has {num_files} files instead of {FILES}.")


def main() -> None:
    """Measure both restores, and print a table."""
    print_table([measure(FILES, "all restored"), measure(FEW_FILES, f"{FEW_FILES} restored")])


if __name__ == "__main__":
    main()
