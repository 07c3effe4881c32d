"""Commits per second of many processes that append to one table at the same time, compared with delta-rs.

Each commit is a small append with a data file, and begins with a new snapshot of the table. The time does not include
the start of the processes. The benchmark counts successful commits only, and reports the number of failed ones. It
compares the time that all commits would take at the rate of the successful ones.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import TimedPair, print_table

from deltalite.errors import DeltaLiteError
from deltalite.protocol.actions import AddFile
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import Committed, commit
from deltalite.txn.proposal import BaseState, Operation, Proposal
from deltalite.upkeep.post_commit import after_commit

WRITERS = 16
COMMITS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 25
ROUNDS = 3
FOLDER = Path(".benchmarks").resolve()
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
MINUTE_S = 60
CONTEXT = multiprocessing.get_context("forkserver")


def append_with_deltalite(table: str) -> bool:
    """Append with the functions of the write command, and do the post-commit work. Return whether it succeeded."""
    store, name = LocalLogStore(table), f"{uuid.uuid4()}.parquet"
    base = Snapshot.load(store)
    pq.write_table(ROWS, f"{table}/{name}", compression="snappy")
    stats = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0}}
    added_file = AddFile(
        path=name,
        partition_values={},
        size_bytes=Path(table, name).stat().st_size,
        modification_time_ms=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(stats),
    )
    proposal = Proposal(
        base=BaseState.of(base),
        operation=Operation(name="WRITE"),
        adds=(added_file,),
    )
    try:
        outcome = commit(store, proposal)
    except DeltaLiteError:
        return False
    after_commit(store, outcome.version)
    return isinstance(outcome, Committed)


def append_with_delta_rs(table: str) -> bool:
    """Append the same rows with delta-rs. Return whether it succeeded."""
    try:
        deltalake.write_deltalake(table, ROWS, mode="append")
    except deltalake.exceptions.DeltaError:
        return False
    return True


def run_writer(append: Callable[[str], bool], table: str, start_barrier: Any, report_queue: Any) -> None:
    """Run the commits of one process, and put a report into the queue.

    A report has the number of successful commits, and the times of the first commit's start and the last one's end. The
    process first appends to a separate table, so that the times do not include late imports.
    """
    warm_up_table = f"{table}-{uuid.uuid4()}"
    deltalake.write_deltalake(warm_up_table, ROWS)
    append(warm_up_table)
    shutil.rmtree(warm_up_table)
    start_barrier.wait()
    started = time.monotonic()
    num_succeeded = sum(append(table) for _ in range(COMMITS))
    report_queue.put((num_succeeded, started, time.monotonic()))


def run_round(append: Callable[[str], bool]) -> tuple[float, int]:
    """Run all writers. Return the seconds from the first start to the last end, and the number of failed commits."""
    table = str(FOLDER / "commits" / append.__name__)
    shutil.rmtree(table, ignore_errors=True)
    deltalake.write_deltalake(table, ROWS)
    start_barrier, report_queue = CONTEXT.Barrier(WRITERS), CONTEXT.Queue()
    writers = [
        CONTEXT.Process(target=run_writer, args=(append, table, start_barrier, report_queue)) for _ in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    reports = [report_queue.get(timeout=10 * MINUTE_S) for _ in writers]
    for writer in writers:
        writer.join()
    num_succeeded = sum(count for count, _, _ in reports)
    version = deltalake.DeltaTable(table).version()
    if version != num_succeeded:
        raise SystemExit(f"The writers reported {num_succeeded} commits, but the table is at version {version}.")
    seconds = max(end for _, _, end in reports) - min(start for _, start, _ in reports)
    return seconds, WRITERS * COMMITS - num_succeeded


def main() -> None:
    """Measure both sides in alternating order, and print a table. The first round does not count."""
    CONTEXT.set_forkserver_preload(["pandas", "deltalake", "pyarrow.parquet", "deltalite.upkeep.post_commit"])
    num_commits = WRITERS * COMMITS
    pair = TimedPair(name=f"{num_commits} commits of {WRITERS} processes", peer="delta-rs", target=1.0)
    sides = [("deltalite", append_with_deltalite, pair.deltalite_s), ("delta-rs", append_with_delta_rs, pair.peer_s)]
    failures = {"deltalite": 0, "delta-rs": 0}
    for round_number in range(ROUNDS + 1):
        for side, append, seconds in sides if round_number % 2 else reversed(sides):
            round_seconds, num_failed = run_round(append)
            failures[side] += num_failed
            if round_number:
                seconds.append(round_seconds * num_commits / max(num_commits - num_failed, 1))
    print_table([pair])
    rates = {"deltalite": num_commits / min(pair.deltalite_s), "delta-rs": num_commits / min(pair.peer_s)}
    print("commits per second, best round: " + ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items()))
    print("failed commits: " + ", ".join(f"{side} {count}" for side, count in failures.items()))


if __name__ == "__main__":
    main()
