"""Reads of storage in the background, bounded in number, so that a slow storage stops neither a page nor the server.

Python cannot stop a thread that waits for storage. So each storage has a few separate threads, and a page waits
for a result without holding a thread. Requests for the same result share one read, and a read that a page needs comes
before the reads of a list. If a storage hangs, its threads hang, its queue fills, and the pool refuses later reads of
this storage. Other storages go on. The threads are daemons, so they do not keep the API server from ending. A read of
commits starts further threads, which are not daemons (`log/commit_infos.py`, `inspection/growth.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from deltalite.inspection.shown_texts import shown_text
from deltalite.inspection.table_rows import RowError

T = TypeVar("T")
_log = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0


@dataclass(slots=True, eq=False)
class Read(Generic[T]):
    """A read in the background. `value` or `error` is set when it is done.

    `started_at` is a time of `time.monotonic`; None while the read waits for a thread.
    """

    run: Callable[[], T] | None
    value: T | None = None
    error: RowError | None = None
    started_at: float | None = None
    is_done: bool = False
    _callbacks: list[Callable[[], None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the read is done; at once if it is."""
        with self._lock:
            if not self.is_done:
                self._callbacks.append(callback)
                return
        callback()

    def execute(self) -> None:
        """Run the read. An error becomes a value without secrets."""
        self.started_at = time.monotonic()
        run, self.run = self.run, None
        try:
            self.value = None if run is None else run()
        except Exception as error:  # noqa: BLE001  an unreadable table must not end a thread of the pool
            self.error = RowError.of(error)
        except BaseException as error:  # noqa: BLE001  such as a SystemExit of a storage client
            self.error = RowError.of(RuntimeError(f"The read ended with {type(error).__name__}"))
        self.finish()

    def forget(self, callback: Callable[[], None]) -> None:
        """Remove a callback of `when_done`."""
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)

    def finish(self) -> None:
        """Mark the read as done, and call the callbacks."""
        with self._lock:
            self.is_done = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


@dataclass(slots=True)
class _StorageQueues:
    """The threads of a storage, and the reads that wait for one of them. `changed` wakes a thread."""

    name: str
    changed: threading.Condition
    urgent: deque[Read[Any]] = field(default_factory=deque)
    not_urgent: deque[Read[Any]] = field(default_factory=deque)
    threads: int = 0

    def next_read(self) -> Read[Any] | None:
        """Wait for a read, and return it; None after `_IDLE_SECONDS` without a read. Needs the lock of `changed`."""
        if not self.changed.wait_for(lambda: self.urgent or self.not_urgent, _IDLE_SECONDS):
            return None
        return (self.urgent or self.not_urgent).popleft()


class ReadPool:
    """Threads for reads, some for each storage, with an upper limit for all storages.

    `max_waiting` bounds the reads of a storage that wait. Urgent reads come first: a person waits for them, and a list
    of many tables does not delay them.
    """

    def __init__(self, *, threads_per_storage: int = 4, max_threads: int = 64, max_waiting: int = 10_000) -> None:
        self._threads_per_storage = threads_per_storage
        self._max_threads = max_threads
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._storages: dict[str, _StorageQueues] = {}
        self._unfinished: dict[Hashable, Read[Any]] = {}

    def read(self, storage: str, key: Hashable, run: Callable[[], T], *, is_urgent: bool = False) -> Read[T]:
        """Start a read, or return the read with the same key that has not ended.

        If the pool refuses the read, the result has ended already, with an error of the kind `Overloaded`.
        """
        with self._lock:
            queues = self._storages.setdefault(storage, _StorageQueues(storage, threading.Condition(self._lock)))
            unfinished = self._unfinished.get(key)
            if unfinished is not None:
                if is_urgent and unfinished in queues.not_urgent:
                    queues.not_urgent.remove(unfinished)
                    queues.urgent.append(unfinished)
                return unfinished
            new_read: Read[T] = Read(run=run)
            if refusal := self._refusal(queues):
                new_read.error = RowError(kind="Overloaded", message=refusal, is_retryable=True)
                new_read.finish()
                return new_read
            (queues.urgent if is_urgent else queues.not_urgent).append(new_read)
            self._unfinished[key] = new_read
            new_read.when_done(lambda: self._forget(key))
            queues.changed.notify()
            if queues.threads < self._threads_per_storage and self._thread_count() < self._max_threads:
                self._start_thread(queues)
            return new_read

    def _refusal(self, queues: _StorageQueues) -> str:
        """Return why the pool refuses another read of a storage; an empty text if it accepts the read."""
        if len(queues.urgent) + len(queues.not_urgent) >= self._max_waiting:
            return f"Too many reads wait for {shown_text(queues.name)}. Try again in a minute."
        if not queues.threads and self._thread_count() >= self._max_threads:
            return f"Too many storages are read at the same time. Read {shown_text(queues.name)} again in a minute."
        return ""

    def _thread_count(self) -> int:
        return sum(queues.threads for queues in self._storages.values())

    def _start_thread(self, queues: _StorageQueues) -> None:
        thread = threading.Thread(target=self._work, args=(queues,), name="deltalite-page", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread; the next read of the storage tries again
            _log.warning("Could not start a thread for reads of %s.", queues.name, exc_info=True)
            return
        queues.threads += 1

    def _forget(self, key: Hashable) -> None:
        self._unfinished.pop(key, None)  # needs no lock, because one operation of a dictionary is atomic

    def _work(self, queues: _StorageQueues) -> None:
        while True:
            with self._lock:
                read = queues.next_read()
                if read is None:
                    queues.threads -= 1
                    return
            read.execute()


async def wait_for_reads(reads: Iterable[Read[Any]], seconds: float) -> None:
    """Wait until all reads are done, at most `seconds`. The reads go on after the wait."""
    pending = [read for read in reads if not read.is_done]
    if not pending:
        return
    loop, all_done = asyncio.get_running_loop(), asyncio.Event()
    counter, lock = [len(pending)], threading.Lock()

    def count_down() -> None:
        with lock:
            counter[0] -= 1
            is_last = counter[0] == 0
        if is_last:
            with suppress(RuntimeError):  # the loop has ended, so nothing waits
                loop.call_soon_threadsafe(all_done.set)

    for read in pending:
        read.when_done(count_down)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(all_done.wait(), seconds)
    finally:
        for read in pending:
            read.forget(count_down)
