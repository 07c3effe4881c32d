"""`deltalite vacuum --dry-run`: lists the files that a vacuum would delete.

It also lists the directories with the most bytes to delete. It deletes nothing; use `DeltaVacuumOperator` to delete.
JSON has one object per file: `path` and `sizeInBytes`. The last object is a summary: `numFilesToDelete`,
`sizeOfDataToDelete`, `numDirectoriesToDelete` and `largestDirectories` (`name`, `files`, `sizeInBytes`; the name of the
table's root directory is empty).
"""

from __future__ import annotations

import argparse
import time

from deltalite.cli.command import Arguments, Command, add_limit, limit_note, limit_of, open_table_store
from deltalite.cli.output import Column, Output
from deltalite.requests import VacuumMode, VacuumRequest
from deltalite.sizes import counted, format_bytes
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import listed_tree
from deltalite.upkeep.vacuum import full_plan, lite_plan
from deltalite.upkeep.vacuum_plan import VacuumPlan
from deltalite.upkeep.vacuum_rules import retention_of

_DEFAULT_LIMIT = 20
_SHOWN_FOLDERS = 10
_ROWS_IN_A_BATCH = 1_024
_FILE_COLUMNS = (Column("path", folds=True), Column("size", is_number=True))
_FOLDER_COLUMNS = (Column("directory", folds=True), Column("files", is_number=True), Column("size", is_number=True))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", required=True, help="required: this command deletes nothing")
    parser.add_argument(
        "--retention-hours", type=int, metavar="N", help="keep files that were removed in the last N hours"
    )
    parser.add_argument(
        "--confirm-short-retention",
        metavar="TABLE",
        help="the table's name; required if --retention-hours is shorter than the table's retention",
    )
    parser.add_argument(
        "--mode",
        choices=list(map(str, VacuumMode)),
        default=str(VacuumMode.FULL),
        help="search the table's folder (full) or only its log (lite) for files to delete (default: %(default)s)",
    )
    add_limit(parser, "files", _DEFAULT_LIMIT)


def _run(args: Arguments, out: Output) -> int:
    request = VacuumRequest(
        table=args.table,
        retention_hours=args.retention_hours,
        confirm_short_retention=args.confirm_short_retention,
        mode=args.mode,
        dry_run=True,
    )
    plan = _plan(request, open_table_store(args))
    shown_files = plan.files.slice(0, limit_of(args))
    if out.as_json:
        for batch in shown_files.to_batches(max_chunksize=_ROWS_IN_A_BATCH):
            out.records({"path": row["name"], "sizeInBytes": row["size"]} for row in batch.to_pylist())
        out.record(_summary(plan))
        return 0
    out.table(_FILE_COLUMNS, ((row["name"], format_bytes(row["size"])) for row in shown_files.to_pylist()))
    out.line()
    largest = plan.largest_folders(_SHOWN_FOLDERS)
    folder_rows = ((folder.name or ".", folder.files, format_bytes(folder.size_bytes)) for folder in largest)
    out.table(_FOLDER_COLUMNS, folder_rows)
    note = limit_note(shown_files.num_rows, plan.files.num_rows)
    out.line()
    out.line(f"{counted(plan.files.num_rows, 'file')} of {format_bytes(plan.size_bytes)} would be deleted{note}")
    return 0


def _plan(request: VacuumRequest, store: LogStore) -> VacuumPlan:
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
            {"name": folder.name, "files": folder.files, "sizeInBytes": folder.size_bytes}
            for folder in plan.largest_folders(_SHOWN_FOLDERS)
        ],
    }


COMMAND = Command(
    name="vacuum",
    summary="the files that a vacuum would delete (--dry-run)",
    description=__doc__,
    takes_version=False,
    add_arguments=_add_arguments,
    run=_run,
)
