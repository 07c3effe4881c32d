"""A vacuum of a table with 100,000 files, 50,000 of them removed, compared with delta-rs.

Each side gets a separate table with the same names, times and log. The benchmark makes the table again for each round.
The table has small files, 500 in each partition's folder, and a checkpoint. One commit has removed half of the files
long ago. The time is that of the whole vacuum in one process, from opening the table to the last commit. It does not
include making the table. The benchmark also times a dry run, and a lite vacuum of this library. To measure another
number of files, give it on the command line.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
from measuring import TimedPair, print_table

from deltalite.commands.vacuum import vacuum
from deltalite.requests import VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint

FILES = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100_000
FILES_PER_FOLDER = 500
ROUNDS = 2
FOLDER = Path(".benchmarks").resolve()
OLD_TIME_S = time.time() - 30 * 24 * 3600
SCHEMA = {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}}
                                       for n, t in (("id", "long"), ("part", "string"))]}  # fmt: skip


def file_paths() -> list[str]:
    """Return the paths of all data files in the table."""
    return [
        f"part={number // FILES_PER_FOLDER}/part-{number:05}-4c5e-a7a3-c000.snappy.parquet" for number in range(FILES)
    ]


def make_table(table: Path) -> Path:
    """Make the table in this folder as it is before a vacuum, and return the folder."""
    paths = file_paths()
    shutil.rmtree(table, ignore_errors=True)
    (table / "_delta_log").mkdir(parents=True)
    for folder in {path.partition("/")[0] for path in paths}:
        (table / folder).mkdir()
    for path in paths:
        (table / path).write_bytes(b"0123456789")
        os.utime(table / path, (OLD_TIME_S - 60, OLD_TIME_S - 60))
    file_fields = {
        path: {"path": path, "partitionValues": {"part": path.partition("/")[0].removeprefix("part=")}, "size": 10}
        for path in paths
    }
    commit_ms = int(OLD_TIME_S * 1000)
    add_fields = {"modificationTime": commit_ms, "dataChange": True, "stats": json.dumps({"numRecords": 1})}
    metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA),
                "partitionColumns": ["part"], "configuration": {}, "createdTime": commit_ms}  # fmt: skip
    adds = [{"add": {**file_fields[path], **add_fields}} for path in paths]
    remove_fields = {"deletionTimestamp": commit_ms, "dataChange": True, "extendedFileMetadata": True}
    removes = [{"remove": {**file_fields[path], **remove_fields}} for path in paths[::2]]
    first_actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for version, actions in enumerate(([*first_actions, *adds], removes)):
        commit = table / "_delta_log" / f"{version:020}.json"
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
        os.utime(commit, (OLD_TIME_S, OLD_TIME_S))
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=commit_ms)
    return table


def vacuum_with_deltalite(table: Path, **options: object) -> float:
    """Vacuum a table with this library, and return the seconds. `options` are parameters of `VacuumRequest`."""
    started = time.perf_counter()
    vacuum(None, VacuumRequest(table=str(table), **options))  # type: ignore[arg-type]
    return time.perf_counter() - started


def vacuum_with_delta_rs(table: Path, *, dry_run: bool = False) -> float:
    """Run a full vacuum of delta-rs, and return the seconds."""
    started = time.perf_counter()
    deltalake.DeltaTable(str(table)).vacuum(retention_hours=7 * 24, dry_run=dry_run, full=True)
    return time.perf_counter() - started


def count_files(table: Path) -> int:
    """Return the number of data files in the table's folder."""
    return sum(len(files) for folder, _, files in os.walk(table) if "_delta_log" not in folder)


def main() -> None:
    """Measure both sides in alternating order, and print a table. The first round does not count."""
    label = f"{FILES:,} files, {FILES // 2:,} removed"
    full_pair = TimedPair(name=f"vacuum of {label}", peer="delta-rs", target=1.0)
    dry_run_pair = TimedPair(name=f"dry run of {label}", peer="delta-rs", target=1.0)
    lite_times_s: list[float] = []
    vacuums: dict[str, Callable[..., float]] = {"deltalite": vacuum_with_deltalite, "delta-rs": vacuum_with_delta_rs}
    for round_number in range(ROUNDS + 1):
        table = make_table(FOLDER / "vacuum")
        dry_run_s = {side: vacuum_table(table, dry_run=True) for side, vacuum_table in vacuums.items()}
        full_s = {}
        for side in sorted(vacuums, reverse=round_number % 2 == 1):
            table = make_table(FOLDER / "vacuum")
            full_s[side] = vacuums[side](table)
            remaining = count_files(table)
            if remaining != FILES - FILES // 2:
                raise SystemExit(f"{side}: {remaining} files remain after the vacuum instead of {FILES - FILES // 2}.")
        lite_s = vacuum_with_deltalite(make_table(FOLDER / "vacuum"), mode="lite")
        if round_number:
            full_pair.deltalite_s.append(full_s["deltalite"])
            full_pair.peer_s.append(full_s["delta-rs"])
            dry_run_pair.deltalite_s.append(dry_run_s["deltalite"])
            dry_run_pair.peer_s.append(dry_run_s["delta-rs"])
            lite_times_s.append(lite_s)
    print_table([full_pair, dry_run_pair])
    print(f"lite vacuum of deltalite: {sorted(lite_times_s)[len(lite_times_s) // 2]:.2f} s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    shutil.rmtree(FOLDER / "vacuum")


if __name__ == "__main__":
    main()
