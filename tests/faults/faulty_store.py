"""A storage with faults, which several clients use behind the `LogStore` interface.

Each client is a thread that waits for its turn before every access. A schedule names the next client and its fault. One
client runs at a time, so a schedule is reproducible. The faults are those of real storage:

- The storage is slow.
- It fails before or after the operation, and the client cannot tell which.
- It performs an operation later, or shows a file late.
- A listing lacks the newest files or a part of a checkpoint.
- `_last_checkpoint` is old or truncated.
- The process of the client dies.

A journal records the accesses of each client. The tests compare it with the final log.
"""

from __future__ import annotations

import threading
from enum import StrEnum

from deltalite.errors import CommitStateUnknownError, StorageError
from deltalite.protocol.file_names import LAST_CHECKPOINT
from deltalite.storage.memory import MemoryLogStore
from tests.unit.builders import NOON_MS

LATE_MS = 1_000
# A client that makes no access for this long hangs.
_HANGS_AFTER_SECONDS = 120


class Fault(StrEnum):
    """The fault of one access."""

    NONE = "none"
    SLOW = "slow"
    FAILS_BEFORE = "fails before"  # raises StorageError, and nothing happens
    FAILS_AFTER = "fails after"  # raises StorageError after the operation
    # In these three cases, a put raises CommitStateUnknownError.
    UNANSWERED_BEFORE = "unanswered before"  # the put writes no file
    UNANSWERED_AFTER = "unanswered after"  # the put has written its file
    WRITTEN_LATER = "written later"  # the put writes its file later
    SENT_TWICE = "sent twice"  # a put is sent twice, so the answer says that the file existed before
    SHOWN_LATE = "shown late"  # a new file stays hidden for a while
    FAILS_AND_SHOWN_LATE = "fails after, and is shown late"
    LACKS_NEWEST = "lacks the newest"  # a listing lacks the last two files
    LACKS_A_PART = "lacks a part"  # a listing lacks the last part of a checkpoint
    TRUNCATED = "truncated"  # `_last_checkpoint` is truncated
    OLD = "old"  # `_last_checkpoint` has an old content
    KILLED = "killed"


class Killed(BaseException):
    """The client's process was killed."""


class Storage:
    """The state of the storage, which all clients share."""

    def __init__(self) -> None:
        self.now_ms = NOON_MS
        self.memory = MemoryLogStore(clock_ms=lambda: self.now_ms)
        self.old_last_checkpoints: list[bytes] = []
        self._shown_from_ms: dict[str, int] = {}
        self._pending_puts: list[tuple[int, str, bytes]] = []

    def pass_time(self, ms: int) -> None:
        """Advance the clock, and perform the pending puts that are due."""
        self.now_ms += ms
        due_puts = [put for put in self._pending_puts if put[0] <= self.now_ms]
        self._pending_puts = [put for put in self._pending_puts if put[0] > self.now_ms]
        for _, name, data in due_puts:
            self.memory.write_if_absent(name, data)

    def shows(self, name: str) -> bool:
        """Whether clients see the file now."""
        return self._shown_from_ms.get(name, 0) <= self.now_ms

    def show_later(self, name: str) -> None:
        """Hide a file from all clients for `LATE_MS`."""
        self._shown_from_ms[name] = self.now_ms + LATE_MS

    def put_later(self, name: str, data: bytes) -> None:
        """Put a file after `LATE_MS`, if it does not exist then."""
        self._pending_puts.append((self.now_ms + LATE_MS, name, data))


def storage_error(operation):
    return StorageError(f"{operation} failed.", remedy="Try again.")


class FaultyLogStore:
    """A client's `LogStore`.

    `journal` has each list, read and put as (operation, name, fault, outcome). It also has every other access that
    failed before its operation. `journal` has no entry for the access at which the client was killed.
    """

    root = "memory://table"

    def __init__(self, storage: Storage, wait_for_turn) -> None:
        self._storage, self._wait_for_turn = storage, wait_for_turn
        self.journal: list[tuple[str, str, Fault, object]] = []

    def _begin(self, operation, name):
        """Wait for the turn of this client, and return the fault of the access."""
        fault = self._wait_for_turn()
        self._storage.pass_time(3_000 if fault is Fault.SLOW else 1)
        if fault is Fault.KILLED:
            raise Killed
        if fault is Fault.FAILS_BEFORE:
            self.journal.append((operation, name, fault, None))
            raise storage_error(f"{operation} {name}")
        return fault

    def _visible(self, name):
        return name in self._storage.memory.files and self._storage.shows(name)

    def list_from(self, name):
        fault = self._begin("list", name)
        files = [file for file in self._storage.memory.list_from(name) if self._storage.shows(file.name)]
        if fault is Fault.LACKS_NEWEST:
            files = files[:-2]
        if fault is Fault.LACKS_A_PART:
            checkpoint_parts = [file for file in files if ".checkpoint." in file.name]
            files = [file for file in files if file not in checkpoint_parts[-1:]]
        self.journal.append(("list", name, fault, len(files)))
        return iter(files)

    def read(self, name):
        fault = self._begin("read", name)
        data = self._storage.memory.read(name) if self._visible(name) else None
        if name == LAST_CHECKPOINT and data is not None:
            if fault is Fault.TRUNCATED:
                data = data[: len(data) // 2]
            if fault is Fault.OLD:
                data = self._storage.old_last_checkpoints[0] if self._storage.old_last_checkpoints else None
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
            case Fault.WRITTEN_LATER:
                self._storage.put_later(name, data)
            case _:
                created = self._storage.memory.write_if_absent(name, data)
        if created and fault in (Fault.SHOWN_LATE, Fault.FAILS_AND_SHOWN_LATE):
            self._storage.show_later(name)
        if fault is Fault.SENT_TWICE:
            created = False
        self.journal.append(("put", name, fault, created))
        if fault in (Fault.FAILS_AFTER, Fault.FAILS_AND_SHOWN_LATE):
            raise storage_error(f"put {name}")
        if fault in (Fault.UNANSWERED_BEFORE, Fault.UNANSWERED_AFTER, Fault.WRITTEN_LATER):
            raise CommitStateUnknownError(f"put {name} was not answered.", remedy="Look.")
        return created

    def write(self, name, data):
        fault = self._begin("write", name)
        if name == LAST_CHECKPOINT and name in self._storage.memory.files:
            self._storage.old_last_checkpoints.append(self._storage.memory.files[name][0])
        self._storage.memory.write(name, data)
        if fault is Fault.FAILS_AFTER:
            raise storage_error(f"write {name}")

    def delete(self, name):
        fault = self._begin("delete", name)
        self._storage.memory.delete(name)
        if fault is Fault.FAILS_AFTER:
            raise storage_error(f"delete {name}")


class Client(threading.Thread):
    """A program that uses a `FaultyLogStore`, one access at a time."""

    def __init__(self, storage: Storage, program) -> None:
        super().__init__(daemon=True)
        self.store = FaultyLogStore(storage, self._wait_for_turn)
        self.error: BaseException | None = None
        self._program = program
        self._may_continue, self._is_waiting = threading.Semaphore(0), threading.Semaphore(0)
        self._fault = Fault.NONE
        self.is_done = False

    def _wait_for_turn(self):
        self._is_waiting.release()
        self._may_continue.acquire()
        return self._fault

    def run(self):
        try:
            self._program(self.store)
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self.error = error
        self.is_done = True
        self._is_waiting.release()

    def begin(self):
        """Start the thread, and wait until it reaches its first access."""
        self.start()
        self._wait_for_thread()

    def make_access(self, fault):
        """Let the client make one access with this fault, and wait until it reaches its next access or its end."""
        self._fault = fault
        self._may_continue.release()
        self._wait_for_thread()

    def _wait_for_thread(self):
        if not self._is_waiting.acquire(timeout=_HANGS_AFTER_SECONDS):
            raise AssertionError(
                "A client reached neither an access nor its end. It may wait for a lock of another client."
            )


def play(storage: Storage, programs, schedule) -> None:
    """Run the programs to their ends: first by the schedule of clients and faults, then without faults."""
    clients = [Client(storage, program) for program in programs]
    for client in clients:
        client.begin()
    scheduled_turns, turn_number = iter(schedule), 0
    while waiting_clients := [client for client in clients if not client.is_done]:
        turn_number += 1
        client_number, fault = next(scheduled_turns, (turn_number, Fault.NONE))
        waiting_clients[client_number % len(waiting_clients)].make_access(fault)
    for client in clients:
        client.join()
        if client.error is not None:
            raise client.error
