"""Commits per second if many processes append to one table at the same time, compared with delta-rs.

Each commit is a small append with a data file, and begins with a new snapshot of the table. The processes start before
the clock does. A failed commit does not count and is reported. The compared time is that of all commits, at the rate of
the successful ones.
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
from measuring import Pair, print_table

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


def ours(table: str) -> bool:
    """Append with the functions of the write command, and do the upkeep after the commit."""
    store, name = LocalLogStore(table), f"{uuid.uuid4()}.parquet"
    base = Snapshot.load(store)
    pq.write_table(ROWS, f"{table}/{name}", compression="snappy")
    stats = {"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0}}
    new = AddFile(
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
        adds=(new,),
    )
    try:
        outcome = commit(store, proposal)
    except DeltaLiteError:
        return False
    after_commit(store, outcome.version)
    return isinstance(outcome, Committed)


def delta_rs(table: str) -> bool:
    """Append the same rows with delta-rs."""
    try:
        deltalake.write_deltalake(table, ROWS, mode="append")
    except deltalake.exceptions.DeltaError:
        return False
    return True


def write(append: Callable[[str], bool], table: str, gate: Any, results: Any) -> None:
    """Run the commits of one process; report the number of successful ones, and the times of its start and end.

    An append to a separate table comes first, so that late imports are not measured.
    """
    warm_up_table = f"{table}-{uuid.uuid4()}"
    deltalake.write_deltalake(warm_up_table, ROWS)
    append(warm_up_table)
    shutil.rmtree(warm_up_table)
    gate.wait()
    started = time.monotonic()
    succeeded = sum(append(table) for _ in range(COMMITS))
    results.put((succeeded, started, time.monotonic()))


def round_of(append: Callable[[str], bool]) -> tuple[float, int]:
    """Return the seconds from the first process's start to the last one's end, and the number of failed commits."""
    table = str(FOLDER / "commits" / append.__name__)
    shutil.rmtree(table, ignore_errors=True)
    deltalake.write_deltalake(table, ROWS)
    gate, results = CONTEXT.Barrier(WRITERS), CONTEXT.Queue()
    writers = [CONTEXT.Process(target=write, args=(append, table, gate, results)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    reports = [results.get(timeout=10 * MINUTE_S) for _ in writers]
    for writer in writers:
        writer.join()
    succeeded = sum(count for count, _, _ in reports)
    if deltalake.DeltaTable(table).version() != succeeded:
        raise SystemExit(f"The writers reported {succeeded} commits, but the table has another number.")
    return max(end for _, _, end in reports) - min(begin for _, begin, _ in reports), WRITERS * COMMITS - succeeded


def main() -> None:
    """Measure both sides in alternating order; the first round is not counted."""
    CONTEXT.set_forkserver_preload(["pandas", "deltalake", "pyarrow.parquet", "deltalite.upkeep.post_commit"])
    num_commits = WRITERS * COMMITS
    pair = Pair(name=f"{num_commits} commits of {WRITERS} processes", peer="delta-rs", target=1.0)
    sides = [(ours, pair.ours_s), (delta_rs, pair.peer_s)]
    failures = {ours.__name__: 0, delta_rs.__name__: 0}
    for number in range(ROUNDS + 1):
        for append, seconds in sides if number % 2 else reversed(sides):
            round_seconds, failed = round_of(append)
            failures[append.__name__] += failed
            if number:
                seconds.append(round_seconds * num_commits / max(num_commits - failed, 1))
    print_table([pair])
    rates = {"ours": num_commits / min(pair.ours_s), "delta-rs": num_commits / min(pair.peer_s)}
    print("commits per second, best round: " + ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items()))
    print("failed commits: " + ", ".join(f"{side} {count}" for side, count in failures.items()))


if __name__ == "__main__":
    main()
