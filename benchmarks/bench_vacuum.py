"""A vacuum of a table with 100,000 files, 50,000 of them dead, beside delta-rs.

Both sides get a table of their own with the same names, times and log, made anew for each round and not timed: small
files in folders of 500 by partition, half of them removed long ago by one commit, and a checkpoint. Timed is the whole
vacuum in one process with the table opened anew: replay, listing, plan, deletes, commits. Beside it stands the dry run
alone, on a table that stays as it is, and a lite vacuum of ours. A number on the command line is the number of files.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from pathlib import Path

import deltalake
from measuring import Pair, print_table

from deltalite.commands.vacuum import vacuum
from deltalite.requests import VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100_000
PER_FOLDER = 500
ROUNDS = 2
FOLDER = Path(".benchmarks").resolve()
LONG_AGO_S = time.time() - 30 * 24 * 3600
SCHEMA = {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}}
                                       for n, t in (("id", "long"), ("part", "string"))]}  # fmt: skip


def names() -> list[str]:
    """The files, every second one of which is dead."""
    return [f"part={number // PER_FOLDER}/part-{number:05}-4c5e-a7a3-c000.snappy.parquet" for number in range(FILES)]


def made(table: Path) -> Path:
    """The table, as it is before a vacuum."""
    shutil.rmtree(table, ignore_errors=True)
    (table / "_delta_log").mkdir(parents=True)
    for folder in {name.partition("/")[0] for name in names()}:
        (table / folder).mkdir()
    for name in names():
        (table / name).write_bytes(b"0123456789")
        os.utime(table / name, (LONG_AGO_S - 60, LONG_AGO_S - 60))
    size = {"size": 10}
    values = {name: {"part": name.partition("/")[0].removeprefix("part=")} for name in names()}
    then_ms = int(LONG_AGO_S * 1000)
    file = {"modificationTime": then_ms, "dataChange": True, "stats": json.dumps({"numRecords": 1})}
    metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA),
                "partitionColumns": ["part"], "configuration": {}, "createdTime": then_ms}  # fmt: skip
    adds = [{"add": {"path": name, "partitionValues": values[name], **size, **file}} for name in names()]
    gone = {"deletionTimestamp": then_ms, "dataChange": True, "extendedFileMetadata": True}
    removes = [{"remove": {"path": n, "partitionValues": values[n], **size, **gone}} for n in names()[::2]]
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for version, actions in enumerate(([*head, *adds], removes)):
        log = table / "_delta_log" / f"{version:020}.json"
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(log, (LONG_AGO_S, LONG_AGO_S))
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=then_ms)
    return table


def ours(table: Path, **options: object) -> float:
    """Seconds of our vacuum."""
    began = time.perf_counter()
    vacuum(None, VacuumRequest(table=str(table), **options))  # type: ignore[arg-type]
    return time.perf_counter() - began


def delta_rs(table: Path, *, dry_run: bool = False) -> float:
    """Seconds of delta-rs's full vacuum."""
    began = time.perf_counter()
    deltalake.DeltaTable(str(table)).vacuum(retention_hours=7 * 24, dry_run=dry_run, full=True)
    return time.perf_counter() - began


def left(table: Path) -> int:
    """How many data files are there."""
    return sum(len(files) for folder, _, files in os.walk(table) if "_delta_log" not in folder)


def main() -> None:
    """Both in turns, each going first as often as the other; the first round is not counted."""
    what = f"{FILES:,} files, {FILES // 2:,} dead"
    whole = Pair(name=f"vacuum of {what}", peer="delta-rs", target=1.0)
    looking = Pair(name=f"dry run of {what}", peer="delta-rs", target=1.0)
    lite_s: list[float] = []
    for number in range(ROUNDS + 1):
        table = made(FOLDER / "vacuum")
        dry = [ours(table, dry_run=True), delta_rs(table, dry_run=True)]
        done = [0.0, 0.0]
        for side in (0, 1) if number % 2 else (1, 0):
            table = made(FOLDER / "vacuum")
            done[side] = (ours, delta_rs)[side](table)
            if left(table) != FILES - FILES // 2:
                raise SystemExit(f"{left(table)} files are left.")
        lite = ours(made(FOLDER / "vacuum"), mode="lite")
        if number:
            whole.ours_s.append(done[0])
            whole.peer_s.append(done[1])
            looking.ours_s.append(dry[0])
            looking.peer_s.append(dry[1])
            lite_s.append(lite)
    print_table([whole, looking])
    print(f"lite vacuum, ours: {sorted(lite_s)[len(lite_s) // 2]:.2f} s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    shutil.rmtree(FOLDER / "vacuum")


if __name__ == "__main__":
    main()
