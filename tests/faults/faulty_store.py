"""One storage with several clients behind the `LogStore` interface. A schedule names the next client and its fault.

Each client is a thread that waits for its turn before every access. One client runs at a time, so a schedule is
reproducible. The faults are those of real storage:

- it is slow, or fails before or after the operation, without saying which;
- it performs an operation later, or shows a file late;
- a listing lacks the newest files or a part of a checkpoint;
- the hint is old or truncated;
- the client's process dies.

A journal records the accesses of each client for the test's verdict.
"""

from __future__ import annotations

import threading
from enum import StrEnum

from deltalite.errors import CommitStateUnknownError, StorageError
from deltalite.protocol.file_names import LAST_CHECKPOINT
from deltalite.storage.memory import MemoryLogStore
from tests.unit.builders import NOON_MS

LATE_MS = 1_000
# No client computes for so long between two accesses.
_HANGS_AFTER_SECONDS = 120


class Fault(StrEnum):
    NONE = "none"
    SLOW = "slow"
    FAILS_BEFORE = "fails before"
    FAILS_AFTER = "fails after"
    UNANSWERED_BEFORE = "unanswered before"
    UNANSWERED_AFTER = "unanswered after"
    LANDS_LATER = "lands later"
    ASKED_TWICE = "asked twice"
    SHOWN_LATE = "shown late"
    FAILS_AND_SHOWN_LATE = "fails after, and is shown late"
    LACKS_NEWEST = "lacks the newest"
    LACKS_A_PART = "lacks a part"
    TORN = "torn"
    OLD = "old"
    KILLED = "killed"


class Killed(BaseException):
    """The client's process was killed."""


class Storage:
    """The state of the storage, which all clients share. A client may see a change late."""

    def __init__(self) -> None:
        self.now_ms = NOON_MS
        self.memory = MemoryLogStore(clock_ms=lambda: self.now_ms)
        self.old_hints: list[bytes] = []
        self._shown_ms: dict[str, int] = {}
        self._later: list[tuple[int, str, bytes]] = []

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        due = [put for put in self._later if put[0] <= self.now_ms]
        self._later = [put for put in self._later if put[0] > self.now_ms]
        for _, name, data in due:
            self.memory.write_if_absent(name, data)

    def shows(self, name: str) -> bool:
        return self._shown_ms.get(name, 0) <= self.now_ms

    def show_later(self, name: str) -> None:
        self._shown_ms[name] = self.now_ms + LATE_MS

    def put_later(self, name: str, data: bytes) -> None:
        self._later.append((self.now_ms + LATE_MS, name, data))


def failure_of(operation):
    return StorageError(f"{operation} failed.", remedy="Try again.")


class FaultyLogStore:
    """A client's `LogStore`. `journal` has each access as (operation, name, fault, outcome)."""

    root = "memory://table"

    def __init__(self, storage: Storage, turn) -> None:
        self._storage, self._turn = storage, turn
        self.journal: list[tuple[str, str, Fault, object]] = []

    def _begin(self, operation, name):
        fault = self._turn()
        self._storage.pass_time(3_000 if fault is Fault.SLOW else 1)
        if fault is Fault.KILLED:
            raise Killed
        if fault is Fault.FAILS_BEFORE:
            self.journal.append((operation, name, fault, None))
            raise failure_of(f"{operation} {name}")
        return fault

    def _visible(self, name):
        return name in self._storage.memory.files and self._storage.shows(name)

    def list_from(self, name):
        fault = self._begin("list", name)
        files = [file for file in self._storage.memory.list_from(name) if self._storage.shows(file.name)]
        if fault is Fault.LACKS_NEWEST:
            files = files[:-2]
        if fault is Fault.LACKS_A_PART:
            parts = [file for file in files if ".checkpoint." in file.name]
            files = [file for file in files if file not in parts[-1:]]
        self.journal.append(("list", name, fault, len(files)))
        return iter(files)

    def read(self, name):
        fault = self._begin("read", name)
        data = self._storage.memory.read(name) if self._visible(name) else None
        if name == LAST_CHECKPOINT and data is not None:
            if fault is Fault.TORN:
                data = data[: len(data) // 2]
            if fault is Fault.OLD:
                data = self._storage.old_hints[0] if self._storage.old_hints else None
        self.journal.append(("read", name, fault, data))
        return data

    def read_start(self, name, size_bytes):
        self._begin("read_start", name)
        return self._storage.memory.read_start(name, size_bytes) if self._visible(name) else None

    def open(self, name):
        self._begin("open", name)
        if not self._visible(name):
            raise FileNotFoundError(name)
        return self._storage.memory.open(name)

    def write_if_absent(self, name, data):
        fault = self._begin("put", name)
        created: object = None
        match fault:
            case Fault.UNANSWERED_BEFORE:
                pass
            case Fault.LANDS_LATER:
                self._storage.put_later(name, data)
            case _:
                created = self._storage.memory.write_if_absent(name, data)
        if created and fault in (Fault.SHOWN_LATE, Fault.FAILS_AND_SHOWN_LATE):
            self._storage.show_later(name)
        if fault is Fault.ASKED_TWICE:
            created = False
        self.journal.append(("put", name, fault, created))
        if fault in (Fault.FAILS_AFTER, Fault.FAILS_AND_SHOWN_LATE):
            raise failure_of(f"put {name}")
        if fault in (Fault.UNANSWERED_BEFORE, Fault.UNANSWERED_AFTER, Fault.LANDS_LATER):
            raise CommitStateUnknownError(f"put {name} was not answered.", remedy="Look.")
        return created

    def write(self, name, data):
        fault = self._begin("write", name)
        if name == LAST_CHECKPOINT and name in self._storage.memory.files:
            self._storage.old_hints.append(self._storage.memory.files[name][0])
        self._storage.memory.write(name, data)
        if fault is Fault.FAILS_AFTER:
            raise failure_of(f"write {name}")

    def delete(self, name):
        fault = self._begin("delete", name)
        self._storage.memory.delete(name)
        if fault is Fault.FAILS_AFTER:
            raise failure_of(f"delete {name}")


class Client(threading.Thread):
    """A program that uses a `FaultyLogStore`, one access at a time."""

    def __init__(self, storage: Storage, program) -> None:
        super().__init__(daemon=True)
        self.store = FaultyLogStore(storage, self._wait)
        self.error: BaseException | None = None
        self._program = program
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self._fault = Fault.NONE
        self.is_done = False

    def _wait(self):
        self._parked.release()
        self._go.acquire()
        return self._fault

    def run(self):
        try:
            self._program(self.store)
        except BaseException as error:  # noqa: BLE001  for the main thread to raise
            self.error = error
        self.is_done = True
        self._parked.release()

    def begin(self):
        self.start()
        self._until_parked()

    def move(self, fault):
        self._fault = fault
        self._go.release()
        self._until_parked()

    def _until_parked(self):
        if not self._parked.acquire(timeout=_HANGS_AFTER_SECONDS):
            raise AssertionError("a client waits for something else than its turn, such as a lock of a parked one")


def play(storage: Storage, programs, schedule) -> None:
    """Run the programs to their ends: first by the schedule of clients and faults, then without faults."""
    clients = [Client(storage, program) for program in programs]
    for client in clients:
        client.begin()
    moves, turn = iter(schedule), 0
    while waiting := [client for client in clients if not client.is_done]:
        turn += 1
        who, fault = next(moves, (turn, Fault.NONE))
        waiting[who % len(waiting)].move(fault)
    for client in clients:
        client.join()
        if client.error is not None:
            raise client.error
