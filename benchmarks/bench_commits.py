"""Commits a second where many processes append to one table at once, beside delta-rs.

Each commit is a small append, data file and all, and each process begins every one of them by looking at the table as
it is then. The processes are started before the clock is. A commit that fails counts as none, and is told; what is
compared is the time of all commits at the rate of those that succeeded.
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
    """An append by the parts of which the write command is made, with what follows a commit."""
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
        done = commit(store, proposal)
    except DeltaLiteError:
        return False
    after_commit(store, done.version)
    return isinstance(done, Committed)


def delta_rs(table: str) -> bool:
    """The same append by delta-rs."""
    try:
        deltalake.write_deltalake(table, ROWS, mode="append")
    except deltalake.exceptions.DeltaError:
        return False
    return True


def write(append: Callable[[str], bool], table: str, gate: Any, said: Any) -> None:
    """One process: all its commits, as many as succeeded, and when it began and ended.

    One to a table of its own comes before, so that what is imported late is not measured.
    """
    own = f"{table}-{uuid.uuid4()}"
    deltalake.write_deltalake(own, ROWS)
    append(own)
    shutil.rmtree(own)
    gate.wait()
    began = time.monotonic()
    succeeded = sum(append(table) for _ in range(COMMITS))
    said.put((succeeded, began, time.monotonic()))


def round_of(append: Callable[[str], bool]) -> tuple[float, int]:
    """Seconds from the first process's begin to the last one's end, and the commits that failed."""
    table = str(FOLDER / "commits" / append.__name__)
    shutil.rmtree(table, ignore_errors=True)
    deltalake.write_deltalake(table, ROWS)
    gate, said = CONTEXT.Barrier(WRITERS), CONTEXT.Queue()
    writers = [CONTEXT.Process(target=write, args=(append, table, gate, said)) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    told = [said.get(timeout=10 * MINUTE_S) for _ in writers]
    for writer in writers:
        writer.join()
    succeeded = sum(count for count, _, _ in told)
    if deltalake.DeltaTable(table).version() != succeeded:
        raise SystemExit(f"{succeeded} commits were told, and the table says otherwise.")
    return max(end for _, _, end in told) - min(begin for _, begin, _ in told), WRITERS * COMMITS - succeeded


def main() -> None:
    """Both sides in turns, each going first as often as the other; the first round is not counted."""
    CONTEXT.set_forkserver_preload(["pandas", "deltalake", "pyarrow.parquet", "deltalite.upkeep.post_commit"])
    everything = WRITERS * COMMITS
    pair = Pair(name=f"{everything} commits of {WRITERS} processes", peer="delta-rs", target=1.0)
    sides = [(ours, pair.ours_s), (delta_rs, pair.peer_s)]
    failures = {ours.__name__: 0, delta_rs.__name__: 0}
    for number in range(ROUNDS + 1):
        for append, seconds in sides if number % 2 else reversed(sides):
            took, failed = round_of(append)
            failures[append.__name__] += failed
            if number:
                seconds.append(took * everything / max(everything - failed, 1))
    print_table([pair])
    rates = {"ours": everything / min(pair.ours_s), "delta-rs": everything / min(pair.peer_s)}
    print("commits a second, best round: " + ", ".join(f"{who} {rate:.0f}" for who, rate in rates.items()))
    print("commits that failed: " + ", ".join(f"{who} {count}" for who, count in failures.items()))


if __name__ == "__main__":
    main()
