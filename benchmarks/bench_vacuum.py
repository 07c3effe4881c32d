"""A vacuum of a table with 100,000 files, 50,000 of them removed, compared with delta-rs.

Each side gets a separate table with the same names, times and log, which is made again for each round and not timed. It
has small files, 500 in each partition's folder, half of them removed long ago by one commit, and a checkpoint. The time
is that of the whole vacuum in one process, from opening the table: replay, listing, plan, deletes and commits. The
benchmark also times a dry run, and a lite vacuum of this library. A number on the command line is the number of files.
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
    """Return the names of the files; every second one is removed."""
    return [f"part={number // PER_FOLDER}/part-{number:05}-4c5e-a7a3-c000.snappy.parquet" for number in range(FILES)]


def make_table(table: Path) -> Path:
    """Make the table as it is before a vacuum."""
    shutil.rmtree(table, ignore_errors=True)
    (table / "_delta_log").mkdir(parents=True)
    for folder in {name.partition("/")[0] for name in names()}:
        (table / folder).mkdir()
    for name in names():
        (table / name).write_bytes(b"0123456789")
        os.utime(table / name, (LONG_AGO_S - 60, LONG_AGO_S - 60))
    file_fields = {
        name: {"path": name, "partitionValues": {"part": name.partition("/")[0].removeprefix("part=")}, "size": 10}
        for name in names()
    }
    commit_ms = int(LONG_AGO_S * 1000)
    add_fields = {"modificationTime": commit_ms, "dataChange": True, "stats": json.dumps({"numRecords": 1})}
    metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA),
                "partitionColumns": ["part"], "configuration": {}, "createdTime": commit_ms}  # fmt: skip
    adds = [{"add": {**file_fields[name], **add_fields}} for name in names()]
    remove_fields = {"deletionTimestamp": commit_ms, "dataChange": True, "extendedFileMetadata": True}
    removes = [{"remove": {**file_fields[name], **remove_fields}} for name in names()[::2]]
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for version, actions in enumerate(([*head, *adds], removes)):
        log = table / "_delta_log" / f"{version:020}.json"
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(log, (LONG_AGO_S, LONG_AGO_S))
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=commit_ms)
    return table


def ours(table: Path, **options: object) -> float:
    """Return the seconds of a vacuum of this library."""
    started = time.perf_counter()
    vacuum(None, VacuumRequest(table=str(table), **options))  # type: ignore[arg-type]
    return time.perf_counter() - started


def delta_rs(table: Path, *, dry_run: bool = False) -> float:
    """Return the seconds of a full vacuum of delta-rs."""
    started = time.perf_counter()
    deltalake.DeltaTable(str(table)).vacuum(retention_hours=7 * 24, dry_run=dry_run, full=True)
    return time.perf_counter() - started


def count_files(table: Path) -> int:
    """Return the number of data files in the folder."""
    return sum(len(files) for folder, _, files in os.walk(table) if "_delta_log" not in folder)


def main() -> None:
    """Measure both sides in alternating order; the first round is not counted."""
    label = f"{FILES:,} files, {FILES // 2:,} removed"
    full = Pair(name=f"vacuum of {label}", peer="delta-rs", target=1.0)
    dry_run = Pair(name=f"dry run of {label}", peer="delta-rs", target=1.0)
    lite_s: list[float] = []
    for number in range(ROUNDS + 1):
        table = make_table(FOLDER / "vacuum")
        dry_run_s = [ours(table, dry_run=True), delta_rs(table, dry_run=True)]
        full_s = [0.0, 0.0]
        for side in (0, 1) if number % 2 else (1, 0):
            table = make_table(FOLDER / "vacuum")
            full_s[side] = (ours, delta_rs)[side](table)
            if count_files(table) != FILES - FILES // 2:
                raise SystemExit(f"{count_files(table)} files remain.")
        lite = ours(make_table(FOLDER / "vacuum"), mode="lite")
        if number:
            full.ours_s.append(full_s[0])
            full.peer_s.append(full_s[1])
            dry_run.ours_s.append(dry_run_s[0])
            dry_run.peer_s.append(dry_run_s[1])
            lite_s.append(lite)
    print_table([full, dry_run])
    print(f"lite vacuum, ours: {sorted(lite_s)[len(lite_s) // 2]:.2f} s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    shutil.rmtree(FOLDER / "vacuum")


if __name__ == "__main__":
    main()
