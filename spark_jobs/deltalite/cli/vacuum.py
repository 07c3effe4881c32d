"""`deltalite vacuum --dry-run`: lists the files that a vacuum would delete and the largest directories among them.

It deletes nothing; use `DeltaVacuumOperator` to delete. JSON has one object per file: `path` and `sizeInBytes`. The
last object is a summary: `numFilesToDelete`, `sizeOfDataToDelete`, `numDirectoriesToDelete` and `largestDirectories`
(`name`, `files`, `sizeInBytes`; the name of the table's root directory is empty).
"""

from __future__ import annotations

import argparse
import time

from deltalite.cli.command import Arguments, Command, add_limit, limit_of, open_log
from deltalite.cli.output import Column, Output, sized
from deltalite.requests import VacuumMode, VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import listed_tree
from deltalite.upkeep.vacuum import full_plan, lite_plan
from deltalite.upkeep.vacuum_plan import VacuumPlan
from deltalite.upkeep.vacuum_rules import retention_of

_MOST = 20
_LARGEST = 10
_AT_A_TIME = 1_024
_FILES = (Column("path", folds=True), Column("size", is_number=True))
_FOLDERS = (Column("directory", folds=True), Column("files", is_number=True), Column("size", is_number=True))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", required=True, help="only look, as this command always does")
    parser.add_argument("--retention-hours", type=int, metavar="N", help="keep what was removed in so many hours")
    parser.add_argument("--confirm-short-retention", metavar="TABLE", help="the table's name, for a short retention")
    parser.add_argument("--mode", choices=list(map(str, VacuumMode)), default=str(VacuumMode.FULL))
    add_limit(parser, "files", _MOST)


def _run(args: Arguments, out: Output) -> int:
    request = VacuumRequest(
        table=args.table,
        retention_hours=args.retention_hours,
        confirm_short_retention=args.confirm_short_retention,
        mode=args.mode,
        dry_run=True,
    )
    plan = _planned(request, open_log(args))
    chosen = plan.files.slice(0, limit_of(args))
    if out.as_json:
        for some in chosen.to_batches(max_chunksize=_AT_A_TIME):
            out.records({"path": row["name"], "sizeInBytes": row["size"]} for row in some.to_pylist())
        out.record(_summary(plan))
        return 0
    out.table(_FILES, ((row["name"], sized(row["size"])) for row in chosen.to_pylist()))
    out.line()
    largest = plan.largest_folders(_LARGEST)
    out.table(_FOLDERS, ((one.name or ".", one.files, sized(one.size_bytes)) for one in largest))
    shown = "" if chosen.num_rows == plan.files.num_rows else f", {chosen.num_rows} of them shown (--limit)"
    out.line()
    out.line(f"{plan.files.num_rows} files of {sized(plan.size_bytes)} would go{shown}")
    return 0


def _planned(request: VacuumRequest, store: LogStore) -> VacuumPlan:
    snapshot = Snapshot.load(store)
    snapshot.check_log()
    retention = retention_of(
        snapshot.configuration,
        request.retention_hours,
        confirmed=request.confirms_short_retention,
        now_ms=time.time_ns() // 1_000_000,
        table=store.root,
    )
    if request.mode is VacuumMode.LITE:
        return lite_plan(snapshot, retention)
    return full_plan(snapshot, listed_tree(store), retention)


def _summary(plan: VacuumPlan) -> dict[str, object]:
    return {
        "numFilesToDelete": plan.files.num_rows,
        "sizeOfDataToDelete": plan.size_bytes,
        "numDirectoriesToDelete": len(plan.folders),
        "largestDirectories": [
            {"name": one.name, "files": one.files, "sizeInBytes": one.size_bytes}
            for one in plan.largest_folders(_LARGEST)
        ],
    }


COMMAND = Command(
    name="vacuum",
    summary="what a vacuum would delete (--dry-run)",
    description=__doc__,
    at_version=False,
    add_arguments=_add_arguments,
    run=_run,
)
