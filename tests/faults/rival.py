"""One of several writers of a table: a process that runs random operations and prints the commits that it believes in.

The table's rows are the numbers in the tag `rows` of its files, so that an operation costs only a commit. All other
parts are those of the library: snapshots, read sets, commits, conflict rules, replanning, checkpoints. Each commit
records its operation and the rows that it read in `userMetadata`, for `history.check`.

    python -m tests.faults.rival <table> <number of the writer> <operations>
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import uuid
from random import Random

import pyarrow as pa

from deltalite.columnar.predicates.predicate import And, Comparison, Operator
from deltalite.columnar.skipping.files import FileTest
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.errors import ConcurrentModificationException
from deltalite.log.file_table import key_column, removes_of
from deltalite.protocol.actions import AddFile, SetTransaction
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import Committed, commit
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint

DAYS = "abcd"
ROWS_OF_A_WRITER = 1_000_000
SHARED_KEYS = 40


def now_ms():
    return time.time_ns() // 1_000_000


def file(day, rows, *, data_change=True):
    """The add of a file with these rows, which exist only in the log."""
    stats = {"numRecords": len(rows), "minValues": {"id": min(rows)}, "maxValues": {"id": max(rows)},
             "nullCount": {"id": 0}}  # fmt: skip
    return AddFile(
        path=f"day={day}/{uuid.uuid4()}.parquet", partition_values={"day": day}, size_bytes=len(rows),
        modification_time_ms=now_ms(), data_change=data_change, stats=json.dumps(stats),
        tags={"rows": json.dumps(sorted(rows))},
    )  # fmt: skip


def day_of(body):
    """The day of an `add`, or of a row of the table of files."""
    return dict(body["partitionValues"])["day"]


def rows_of(body):
    """The rows of an `add`, or of a row of the table of files."""
    return json.loads(dict(body["tags"])["rows"])


def chosen(files, is_wanted):
    """The files for whose rows `is_wanted` holds."""
    return files.filter(pa.array([is_wanted(row) for row in files.to_pylist()], pa.bool_()))


def all_rows(files):
    return sorted(r for row in files.to_pylist() for r in rows_of(row))


class Rival:
    """A writer with a unique number, which is the prefix of the numbers of its rows."""

    def __init__(self, table, number) -> None:
        self.store, self.number, self.random = LocalLogStore(table), number, Random(number)
        self.last_row = number * ROWS_OF_A_WRITER

    def run(self):
        """Run one random operation; returns (app id, version or None), or None if there was nothing to do."""
        operation = self.random.choice(
            [self.append, self.append, self.append, self.replace, self.delete, self.delete, self.upsert, self.upsert,
             self.compact, self.count, self.describe, self.evolve, self.checkpoint]
        )  # fmt: skip
        app_id = str(uuid.uuid4())
        try:
            return app_id, replan_on_conflict(lambda: operation(app_id), rebase=Rebase.REPLAN, retries=20, seconds=60)
        except ConcurrentModificationException:
            return app_id, None

    def new_rows(self):
        first = self.last_row + 1
        self.last_row += self.random.randint(1, 5)
        return list(range(first, self.last_row + 1))

    def files(self):
        snapshot = Snapshot.load(self.store)
        return snapshot, snapshot.files_with()

    def test(self, snapshot, *comparisons):
        tree = And(tuple(Comparison(column=(c,), operator=Operator(o), literal=v) for c, o, v in comparisons))
        return FileTest(tree, snapshot.table_schema)

    def commit(self, app_id, snapshot, report, *, adds=(), removed=None, reads=None, metadata=None, data_change=True):
        gone = [] if removed is None else removes_of(removed, deletion_timestamp_ms=now_ms(), data_change=data_change)
        proposal = Proposal(
            base=BaseState.of(snapshot),
            operation=Operation(name=report["did"].upper(), user_metadata=json.dumps(report)), adds=tuple(adds),
            removes=tuple(gone), reads=reads or ReadSet(), metadata=metadata,
            txn=SetTransaction(app_id=app_id, version=0, last_updated_ms=now_ms()),
        )  # fmt: skip
        outcome = commit(self.store, proposal)
        assert isinstance(outcome, Committed)
        return outcome.version

    def append(self, app_id):
        snapshot = Snapshot.load(self.store)
        adds = [file(self.random.choice(DAYS), self.new_rows())]
        return self.commit(app_id, snapshot, {"did": "append"}, adds=adds)

    def replace(self, app_id):
        """Replace all rows of a day by other rows, or by none."""
        snapshot, files = self.files()
        day = self.random.choice(DAYS)
        new = [file(day, self.new_rows())] if self.random.random() < 0.5 else []
        replaced = chosen(files, lambda row: day_of(row) == day)
        report = {"did": "replace", "day": day, "saw": all_rows(replaced)}
        reads = ReadSet(
            keys=frozenset(key_column(replaced).to_pylist()), rows=(self.test(snapshot, ("day", "=", day)),)
        )
        return self.commit(app_id, snapshot, report, adds=new, removed=replaced, reads=reads)

    def delete(self, app_id):
        """Delete the rows in a range of numbers, in any file."""
        snapshot, files = self.files()
        everything = all_rows(files)
        if not everything:
            return None
        low = self.random.choice(everything)
        high = low + self.random.randint(0, 20)
        return self.rewrite(app_id, "delete", snapshot, files, low, high, [])

    def upsert(self, app_id):
        """Upsert rows with keys that all writers share, as a merge does: existing rows move, new rows are inserted."""
        snapshot, files = self.files()
        low = self.random.randint(1, SHARED_KEYS)
        new = file(self.random.choice(DAYS), [low, low + 1])
        return self.rewrite(app_id, "upsert", snapshot, files, low, low + 1, [new])

    def rewrite(self, app_id, did, snapshot, files, low, high, new):
        """Remove the rows of a range from their files, and add `new` files."""
        touched = chosen(files, lambda row: any(low <= r <= high for r in rows_of(row)))
        remaining = [
            (day_of(row), rest)
            for row in touched.to_pylist()
            if (rest := [r for r in rows_of(row) if not low <= r <= high])
        ]
        report = {"did": did, "low": low, "high": high, "saw": [r for r in all_rows(files) if low <= r <= high]}
        test = self.test(snapshot, ("id", ">=", low), ("id", "<=", high))
        reads = ReadSet(keys=frozenset(key_column(touched).to_pylist()), rows=(test,))
        adds = [*(file(*file_rows) for file_rows in remaining), *new]
        return self.commit(app_id, snapshot, report, adds=adds, removed=touched, reads=reads)

    def compact(self, app_id):
        """Some files of a day into one."""
        snapshot, files = self.files()
        day = self.random.choice(DAYS)
        some = chosen(files, lambda row: day_of(row) == day and self.random.random() < 0.7)
        if some.num_rows < 2:
            return None
        reads = ReadSet(keys=frozenset(key_column(some).to_pylist()))
        return self.commit(
            app_id, snapshot, {"did": "compact"}, adds=[file(day, all_rows(some), data_change=False)], removed=some,
            reads=reads, data_change=False,
        )  # fmt: skip

    def count(self, app_id):
        """A row that is inserted because of all the others."""
        snapshot, files = self.files()
        report = {"did": "count", "saw": all_rows(files)}
        return self.commit(app_id, snapshot, report, adds=[file("a", self.new_rows())], reads=ReadSet(whole_table=True))

    def describe(self, app_id):
        """Change the metadata in a way that is compatible with concurrent commits."""
        snapshot = Snapshot.load(self.store)
        described = dataclasses.replace(snapshot.metadata, description=app_id)
        return self.commit(app_id, snapshot, {"did": "describe"}, metadata=described)

    def evolve(self, app_id):
        """Change the metadata in a way that conflicts with concurrent commits: increment a counter."""
        snapshot = Snapshot.load(self.store)
        counter = int(snapshot.configuration.get("delta.counter", "0"))
        configuration = {**snapshot.configuration, "delta.counter": str(counter + 1)}
        changed = dataclasses.replace(snapshot.metadata, configuration=configuration)
        return self.commit(app_id, snapshot, {"did": "evolve", "saw": counter}, metadata=changed)

    def checkpoint(self, _app_id):
        write_checkpoint(Snapshot.load(self.store), now_ms=now_ms())


def main(table, number, operations):
    rival = Rival(table, int(number))
    for _ in range(int(operations)):
        print(json.dumps(rival.run()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
