"""Under storage faults and concurrent writers, the result that a writer got agrees with the log."""

from __future__ import annotations

import logging

from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CommitStateUnknownError, DeltaLiteError, TableNotFoundError
from deltalite.log.file_table import removes_of
from deltalite.protocol.actions import AddFile, RemoveFile, SetTransaction, parse_commit
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot
from deltalite.txn.commit import Committed, commit
from deltalite.txn.find_run import earlier_result
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.post_commit import after_commit
from tests.faults.faulty_store import Fault, Killed, Storage, play
from tests.support.fuzzing import examples
from tests.unit.builders import PROTOCOL, add, appended, commit_actions, create, load, metadata, proposal, remove, txn
from tests.unit.logs import write_parts

TRIES = 4
UNANSWERED = (Fault.UNANSWERED_BEFORE, Fault.UNANSWERED_AFTER, Fault.LANDS_LATER)
PUT_FAULTS = (
    *UNANSWERED,
    Fault.FAILS_BEFORE,
    Fault.FAILS_AFTER,
    Fault.ASKED_TWICE,
    Fault.SHOWN_LATE,
    Fault.FAILS_AND_SHOWN_LATE,
)


class Writer:
    """A task: it repeats its run until it learns that its rows are in the table. Each attempt writes another file."""

    def __init__(self, storage, app_id, kind):
        self.storage, self.app_id, self.kind = storage, app_id, kind
        self.reports = []

    def __call__(self, store):
        for number in range(TRIES):
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
        try:
            base = Snapshot.load(store)
        except TableNotFoundError:
            base = None
        if base is None:
            current = proposal(-1, PROTOCOL, metadata({"delta.checkpointInterval": "3"}), add(path), txn(self.app_id))
        else:
            outcome = earlier_result(base, store.root, RunIdentity(app_id=self.app_id))
            if outcome is not None:
                return -1 if outcome.version is None else outcome.version
            rules, removes, reads = (base.protocol, base.metadata), [], None
            if self.kind == "replace":
                removes = list(removes_of(base.files, deletion_timestamp_ms=self.storage.now_ms, data_change=True))
                reads = ReadSet(whole_table=True)
            current = proposal(base.version, add(path), *removes, txn(self.app_id), rules=rules, reads=reads)
        wait = lambda seconds: self.storage.pass_time(int(seconds * 1000))
        outcome = commit(store, current, clock_ms=lambda: self.storage.now_ms, pause=wait)
        if isinstance(outcome, Committed):
            after_commit(store, outcome.version, clock_ms=lambda: self.storage.now_ms)
        return outcome.version


class Reader:
    """A reader that loads the table repeatedly; a typed error is a valid answer."""

    def __init__(self):
        self.saw = []

    def __call__(self, store):
        for _ in range(4):
            try:
                snapshot = Snapshot.load(store)
                self.saw.append((snapshot.version, sorted(snapshot.files["path"].to_pylist())))
            except (DeltaLiteError, Killed):
                continue


class Log:
    """The final state of the log. `begun` is the number of the first commit, and the files at its end."""

    def __init__(self, memory, begun):
        self.files, self.homes, self.runs = {}, {}, {}
        version, files = begun
        while (data := memory.read(commit_name(version))) is not None:
            for action in parse_commit(data, "x"):
                match action:
                    case AddFile(path=path):
                        files = files | {path}
                        self.homes.setdefault(path, []).append(version)
                    case RemoveFile(path=path):
                        files = files - {path}
                    case SetTransaction(app_id=app_id):
                        self.runs.setdefault(app_id, []).append(version)
            self.files[version] = sorted(files)
            version += 1
        assert sum(name.endswith(".json") for name in memory.files) == len(self.files), "a version is missing"


def check_results(storage, begun, writers, readers):
    """Compare the results of all clients with the final log."""
    storage.pass_time(10_000_000)
    log = Log(storage.memory, begun)
    for writer in writers:
        assert len(log.runs.get(writer.app_id, [])) <= 1, f"{writer.app_id} is in the log twice"
        for path, answer, journal in writer.reports:
            match answer:
                case int():
                    assert log.runs[writer.app_id] == [answer], f"{path} was told {answer}, and the log says {log.runs}"
                case "failed":
                    assert path not in log.homes, f"{path} was told that it failed, and is version {log.homes[path]}"
                case "unknown":
                    assert is_ambiguous(journal), f"{path} could have known: {journal}"
    for version, paths in (seen for reader in readers for seen in reader.saw):
        assert paths == log.files[version], f"version {version} was read wrongly"
    if log.files:
        last = load(storage.memory)
        assert (last.version, sorted(last.files["path"].to_pylist())) == max(log.files.items())
        assert set(last.transactions) == set(log.runs)


def is_ambiguous(journal):
    """Whether a writer cannot know from its journal if its last put is or will be in the log."""
    last = next(name for operation, name, _, _ in reversed(journal) if operation == "put")
    about = [(operation, fault, answer) for operation, name, fault, answer in journal if name == last]
    puts = [(fault, answer) for operation, fault, answer in about if operation == "put"]
    looks = [
        (fault, answer) for operation, fault, answer in about[about.index(("put", *puts[0])) :] if operation == "read"
    ]
    if any(answer is not None for _, answer in looks):
        return False
    is_open = any(fault in UNANSWERED or answer is False for fault, answer in puts)
    return is_open or looks[-1][0] is Fault.FAILS_BEFORE


def fresh(kind):
    """A storage with a table (none, a small one, or one with cleaned-up commits), and the start of its log."""
    storage = Storage()
    if kind == "none":
        return storage, (0, set())
    create(storage.memory, configuration={"delta.checkpointInterval": "3"})
    appended(storage.memory, 4)
    commit_actions(storage.memory, remove("f1"))
    if kind == "parts":
        write_parts(storage.memory, 4, 3)
        for version in range(4):
            storage.memory.delete(commit_name(version))
        return storage, (4, {"f1", "f2", "f3", "f4"})
    return storage, (0, set())


MOSTLY_NONE = [Fault.NONE] * 12
SCHEDULES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*MOSTLY_NONE, *Fault, *PUT_FAULTS])), max_size=120)


@examples(50)
@given(
    kind=st.sampled_from(["small", "none", "parts"]),
    kinds=st.lists(st.sampled_from(["append", "replace"]), min_size=1, max_size=3),
    schedule=SCHEDULES,
)
def test_the_result_of_a_writer_agrees_with_the_log(kind, kinds, schedule):
    storage, begun = fresh(kind)
    writers = [Writer(storage, f"run {number}", each) for number, each in enumerate(kinds)]
    readers = [Reader()]
    logging.disable(logging.CRITICAL)
    try:
        play(storage, [*writers, *readers], schedule)
    finally:
        logging.disable(logging.NOTSET)
    check_results(storage, begun, writers, readers)
