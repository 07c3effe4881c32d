"""One of several writers of a table: a process that runs random operations and prints its commits.

The rows of the table are numbers in the tag `rows` of its files, so an operation costs only a commit. The library does
the rest: snapshots, read sets, commits, conflict rules, replanning and checkpoints. Each commit records its operation
and the rows that it read in `userMetadata`, for `history.check_history`.

    python -m tests.faults.rival <table> <number of the writer> <operations>
"""

from __future__ import annotations

import dataclasses
import json
import sys
import uuid
from random import Random

import pyarrow as pa

from deltalite.columnar.predicates.predicate import And, Comparison, Operator
from deltalite.columnar.skipping.files import FileTest
from deltalite.commands.common.committing import now_ms
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


def add_of(day, rows, *, data_change=True):
    """Return the `add` of a file with these rows. The file exists only in the log."""
    stats = {"numRecords": len(rows), "minValues": {"id": min(rows)}, "maxValues": {"id": max(rows)},
             "nullCount": {"id": 0}}  # fmt: skip
    return AddFile(
        path=f"day={day}/{uuid.uuid4()}.parquet", partition_values={"day": day}, size_bytes=len(rows),
        modification_time_ms=now_ms(), data_change=data_change, stats=json.dumps(stats),
        tags={"rows": json.dumps(sorted(rows))},
    )  # fmt: skip


def day_of(file):
    """Return the day of a file. `file` is the JSON of its `add` action, or its row in the table of files."""
    return dict(file["partitionValues"])["day"]


def rows_of(file):
    """Return the rows of a file. `file` is the JSON of its `add` action, or its row in the table of files."""
    return json.loads(dict(file["tags"])["rows"])


def matching_files(files, is_match):
    """Return the part of a table of files for which the function `is_match` returns true."""
    return files.filter(pa.array([is_match(file) for file in files.to_pylist()], pa.bool_()))


def all_rows(files):
    """Return the sorted rows of a table of files."""
    return sorted(row for file in files.to_pylist() for row in rows_of(file))


class Rival:
    """A writer with a unique number. Its new rows are numbers above `number * ROWS_OF_A_WRITER`."""

    def __init__(self, table, number) -> None:
        self.store, self.number, self.random = LocalLogStore(table), number, Random(number)
        self.last_row = number * ROWS_OF_A_WRITER

    def run(self):
        """Run one random operation. Returns its app id, and its version or None if it committed nothing."""
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
        """Return between one and five numbers that no writer has used."""
        first_row = self.last_row + 1
        self.last_row += self.random.randint(1, 5)
        return list(range(first_row, self.last_row + 1))

    def load_files(self):
        """Return the newest snapshot, and the table of its files."""
        snapshot = Snapshot.load(self.store)
        return snapshot, snapshot.files_with()

    def file_test(self, snapshot, *comparisons):
        """Return a test that a file passes if one of its rows may satisfy all comparisons (column, operator, value)."""
        predicate = And(
            tuple(
                Comparison(column=(column,), operator=Operator(operator), literal=literal)
                for column, operator, literal in comparisons
            )
        )
        return FileTest(predicate, snapshot.table_schema)

    def commit(
        self, app_id, snapshot, report, *, adds=(), removed_files=None, reads=None, metadata=None, data_change=True
    ):
        """Commit an operation and return its version. `report` is the operation's description for the check."""
        removes = (
            []
            if removed_files is None
            else removes_of(removed_files, deletion_timestamp_ms=now_ms(), data_change=data_change)
        )
        proposal = Proposal(
            base=BaseState.of(snapshot),
            operation=Operation(name=report["operation"].upper(), user_metadata=json.dumps(report)), adds=tuple(adds),
            removes=tuple(removes), reads=reads or ReadSet(), metadata=metadata,
            txn=SetTransaction(app_id=app_id, version=0, last_updated_ms=now_ms()),
        )  # fmt: skip
        outcome = commit(self.store, proposal)
        assert isinstance(outcome, Committed)
        return outcome.version

    def append(self, app_id):
        """Append a file of new rows to a random day."""
        snapshot = Snapshot.load(self.store)
        adds = [add_of(self.random.choice(DAYS), self.new_rows())]
        return self.commit(app_id, snapshot, {"operation": "append"}, adds=adds)

    def replace(self, app_id):
        """Replace all rows of a day by other rows, or by none."""
        snapshot, files = self.load_files()
        day = self.random.choice(DAYS)
        adds = [add_of(day, self.new_rows())] if self.random.random() < 0.5 else []
        replaced_files = matching_files(files, lambda file: day_of(file) == day)
        report = {"operation": "replace", "day": day, "read_rows": all_rows(replaced_files)}
        reads = ReadSet(
            keys=frozenset(key_column(replaced_files).to_pylist()),
            row_tests=(self.file_test(snapshot, ("day", "=", day)),),
        )
        return self.commit(app_id, snapshot, report, adds=adds, removed_files=replaced_files, reads=reads)

    def delete(self, app_id):
        """Delete the rows in a range of numbers, in any file."""
        snapshot, files = self.load_files()
        rows = all_rows(files)
        if not rows:
            return None
        low = self.random.choice(rows)
        high = low + self.random.randint(0, 20)
        return self.rewrite(app_id, "delete", snapshot, files, low, high, [])

    def upsert(self, app_id):
        """Upsert two rows with keys that all writers share. As in a merge, existing rows move to a new file."""
        snapshot, files = self.load_files()
        low = self.random.randint(1, SHARED_KEYS)
        add = add_of(self.random.choice(DAYS), [low, low + 1])
        return self.rewrite(app_id, "upsert", snapshot, files, low, low + 1, [add])

    def rewrite(self, app_id, operation, snapshot, files, low, high, new_files):
        """Remove the rows from `low` to `high` from their files, add `new_files`, and return the committed version."""
        touched_files = matching_files(files, lambda file: any(low <= row <= high for row in rows_of(file)))
        adds_of_remaining_rows = [
            add_of(day_of(file), remaining_rows)
            for file in touched_files.to_pylist()
            if (remaining_rows := [row for row in rows_of(file) if not low <= row <= high])
        ]
        read_rows = [row for row in all_rows(files) if low <= row <= high]
        report = {"operation": operation, "low": low, "high": high, "read_rows": read_rows}
        row_test = self.file_test(snapshot, ("id", ">=", low), ("id", "<=", high))
        reads = ReadSet(keys=frozenset(key_column(touched_files).to_pylist()), row_tests=(row_test,))
        return self.commit(
            app_id,
            snapshot,
            report,
            adds=[*adds_of_remaining_rows, *new_files],
            removed_files=touched_files,
            reads=reads,
        )

    def compact(self, app_id):
        """Compact some files of a day into one file."""
        snapshot, files = self.load_files()
        day = self.random.choice(DAYS)
        files_to_compact = matching_files(files, lambda file: day_of(file) == day and self.random.random() < 0.7)
        if files_to_compact.num_rows < 2:
            return None
        reads = ReadSet(keys=frozenset(key_column(files_to_compact).to_pylist()))
        return self.commit(
            app_id,
            snapshot,
            {"operation": "compact"},
            adds=[add_of(day, all_rows(files_to_compact), data_change=False)],
            removed_files=files_to_compact,
            reads=reads,
            data_change=False,
        )

    def count(self, app_id):
        """Insert rows after a read of the complete table, as an INSERT with a count of all rows does."""
        snapshot, files = self.load_files()
        report = {"operation": "count", "read_rows": all_rows(files)}
        return self.commit(
            app_id, snapshot, report, adds=[add_of("a", self.new_rows())], reads=ReadSet(whole_table=True)
        )

    def describe(self, app_id):
        """Change the metadata in a way that is compatible with concurrent commits."""
        snapshot = Snapshot.load(self.store)
        metadata = dataclasses.replace(snapshot.metadata, description=app_id)
        return self.commit(app_id, snapshot, {"operation": "describe"}, metadata=metadata)

    def evolve(self, app_id):
        """Change the metadata in a way that conflicts with concurrent commits: increment a counter."""
        snapshot = Snapshot.load(self.store)
        counter = int(snapshot.configuration.get("delta.counter", "0"))
        configuration = {**snapshot.configuration, "delta.counter": str(counter + 1)}
        metadata = dataclasses.replace(snapshot.metadata, configuration=configuration)
        return self.commit(app_id, snapshot, {"operation": "evolve", "read_counter": counter}, metadata=metadata)

    def checkpoint(self, _app_id):
        """Write a checkpoint of the newest version. Returns None, because a checkpoint is no commit."""
        write_checkpoint(Snapshot.load(self.store), now_ms=now_ms())


def main(table, number, operations):
    rival = Rival(table, int(number))
    for _ in range(int(operations)):
        print(json.dumps(rival.run()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
