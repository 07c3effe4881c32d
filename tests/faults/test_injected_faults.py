"""Under storage faults and concurrent writers, the result of each writer agrees with the log."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CommitStateUnknownError, DeltaLiteError, TableNotFoundError
from deltalite.log.file_table import removes_of
from deltalite.protocol.actions import AddFile, RemoveFile, SetTransaction
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot
from deltalite.txn.commit import Committed, commit
from deltalite.txn.find_run import earlier_result
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.post_commit import after_commit
from tests.faults.faulty_store import Fault, Killed, Storage, play
from tests.support.commits import parse_commit
from tests.support.fuzzing import examples
from tests.unit.builders import (
    PROTOCOL,
    add,
    append_files,
    commit_actions,
    create,
    load,
    metadata,
    proposal,
    remove,
    txn,
)
from tests.unit.logs import write_parts

ATTEMPTS = 4
UNANSWERED = (Fault.UNANSWERED_BEFORE, Fault.UNANSWERED_AFTER, Fault.WRITTEN_LATER)
PUT_FAULTS = (
    *UNANSWERED,
    Fault.FAILS_BEFORE,
    Fault.FAILS_AFTER,
    Fault.SENT_TWICE,
    Fault.SHOWN_LATE,
    Fault.FAILS_AND_SHOWN_LATE,
)


class Writer:
    """A task that repeats its run until it learns that its rows are in the table. Each attempt writes another file.

    `reports` contains for each attempt the path of its file, its answer and its part of the journal. The answer is the
    committed version, "unknown", "failed" or "killed".
    """

    def __init__(self, storage, app_id, kind):
        self.storage, self.app_id, self.kind = storage, app_id, kind
        self.reports = []

    def __call__(self, store):
        for number in range(ATTEMPTS):
            path, journal_start = f"{self.app_id}-{number}", len(store.journal)
            try:
                answer = self.attempt(store, path)
            except CommitStateUnknownError:
                answer = "unknown"
            except DeltaLiteError:
                answer = "failed"
            except Killed:
                answer = "killed"
            self.reports.append((path, answer, store.journal[journal_start:]))
            if isinstance(answer, int):
                return

    def attempt(self, store, path):
        """Commit once, unless the run has committed before. Returns the version, or -1 if it is unknown."""
        try:
            base = Snapshot.load(store)
        except TableNotFoundError:
            base = None
        if base is None:
            write_proposal = proposal(
                -1, PROTOCOL, metadata({"delta.checkpointInterval": "3"}), add(path), txn(self.app_id)
            )
        else:
            outcome = earlier_result(base, store.root, RunIdentity(app_id=self.app_id))
            if outcome is not None:
                return -1 if outcome.version is None else outcome.version
            removes, reads = [], None
            if self.kind == "replace":
                removes = list(removes_of(base.files, deletion_timestamp_ms=self.storage.now_ms, data_change=True))
                reads = ReadSet(whole_table=True)
            write_proposal = proposal(
                base.version, add(path), *removes, txn(self.app_id), base=(base.protocol, base.metadata), reads=reads
            )
        pass_seconds = lambda seconds: self.storage.pass_time(int(seconds * 1000))
        outcome = commit(store, write_proposal, clock_ms=lambda: self.storage.now_ms, pause=pass_seconds)
        if isinstance(outcome, Committed):
            after_commit(store, outcome.version, clock_ms=lambda: self.storage.now_ms)
        return outcome.version


class Reader:
    """A reader that loads the table repeatedly.

    `read_versions` contains the version and the paths of its files, for each load without an error.
    """

    def __init__(self):
        self.read_versions = []

    def __call__(self, store):
        for _ in range(4):
            try:
                snapshot = Snapshot.load(store)
                self.read_versions.append((snapshot.version, sorted(snapshot.files["path"].to_pylist())))
            except (DeltaLiteError, Killed):
                continue


class Log:
    """The final state of the log. `log_start` is the first version of the log, and the live files of this version.

    `files_by_version` contains the sorted live files of each version. `versions_of_path` contains the versions that
    added a file, and `versions_of_run` the versions with the `txn` of a run.
    """

    def __init__(self, memory, log_start):
        self.files_by_version, self.versions_of_path, self.versions_of_run = {}, {}, {}
        version, files = log_start
        while (data := memory.read(commit_name(version))) is not None:
            for action in parse_commit(data, "x"):
                match action:
                    case AddFile(path=path):
                        files = files | {path}
                        self.versions_of_path.setdefault(path, []).append(version)
                    case RemoveFile(path=path):
                        files = files - {path}
                    case SetTransaction(app_id=app_id):
                        self.versions_of_run.setdefault(app_id, []).append(version)
            self.files_by_version[version] = sorted(files)
            version += 1
        commit_count = sum(name.endswith(".json") for name in memory.files)
        assert commit_count == len(self.files_by_version), "a version is missing"


def check_results(storage, log_start, writers, readers):
    """Compare the results of all clients with the final log."""
    storage.pass_time(10_000_000)
    log = Log(storage.memory, log_start)
    for writer in writers:
        assert len(log.versions_of_run.get(writer.app_id, [])) <= 1, f"{writer.app_id} is in the log twice"
        for path, answer, journal in writer.reports:
            match answer:
                case int():
                    versions = log.versions_of_run[writer.app_id]
                    assert versions == [answer], f"the answer for {path} is {answer}, but its run is in {versions}"
                case "failed":
                    versions = log.versions_of_path.get(path)
                    assert versions is None, f"the answer for {path} is a failure, but it is in {versions}"
                case "unknown":
                    assert is_ambiguous(journal), f"the journal tells the outcome for {path}: {journal}"
    for version, paths in (pair for reader in readers for pair in reader.read_versions):
        assert paths == log.files_by_version[version], f"version {version} was read wrongly"
    if log.files_by_version:
        newest = load(storage.memory)
        assert (newest.version, sorted(newest.files["path"].to_pylist())) == max(log.files_by_version.items())
        assert set(newest.transactions) == set(log.versions_of_run)


def is_ambiguous(journal):
    """Return True if a writer's journal does not show whether its last put is in the log, or arrives there later."""
    last_put = next(name for operation, name, _, _ in reversed(journal) if operation == "put")
    accesses = [(operation, fault, answer) for operation, name, fault, answer in journal if name == last_put]
    puts = [(fault, answer) for operation, fault, answer in accesses if operation == "put"]
    after_put = accesses[accesses.index(("put", *puts[0])) :]
    reads = [(fault, answer) for operation, fault, answer in after_put if operation == "read"]
    if any(answer is not None for _, answer in reads):
        return False
    has_no_answer = any(fault in UNANSWERED or answer is False for fault, answer in puts)
    return has_no_answer or reads[-1][0] is Fault.FAILS_BEFORE


def make_storage(table_kind):
    """Return a storage, and the argument `log_start` of `Log` for it.

    The storage has no table ("none"), a table with all its commits ("small"), or one whose first commits were cleaned
    up after a checkpoint of several parts ("parts").
    """
    storage = Storage()
    if table_kind == "none":
        return storage, (0, set())
    create(storage.memory, configuration={"delta.checkpointInterval": "3"})
    append_files(storage.memory, 4)
    commit_actions(storage.memory, remove("f1"))
    if table_kind == "parts":
        write_parts(storage.memory, 4, 3)
        for version in range(4):
            storage.memory.delete(commit_name(version))
        return storage, (4, {"f1", "f2", "f3", "f4"})
    return storage, (0, set())


MOSTLY_NONE = [Fault.NONE] * 12
SCHEDULES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*MOSTLY_NONE, *Fault, *PUT_FAULTS])), max_size=120)


@examples(50)
@given(
    table_kind=st.sampled_from(["small", "none", "parts"]),
    writer_kinds=st.lists(st.sampled_from(["append", "replace"]), min_size=1, max_size=3),
    schedule=SCHEDULES,
)
def test_the_result_of_a_writer_agrees_with_the_log(table_kind, writer_kinds, schedule):
    storage, log_start = make_storage(table_kind)
    writers = [Writer(storage, f"run {number}", kind) for number, kind in enumerate(writer_kinds)]
    readers = [Reader()]
    logging.disable(logging.CRITICAL)
    try:
        play(storage, [*writers, *readers], schedule)
    finally:
        logging.disable(logging.NOTSET)
    check_results(storage, log_start, writers, readers)
