"""Reads of storage in the background, bounded in number, so that a slow storage stops neither a page nor the server.

Python cannot stop a thread that waits for storage. So each storage has a few separate threads, and a page waits
for a result without holding a thread. Requests for the same result share one read. If a storage hangs, its threads
hang, its queue fills, and later reads are refused; other storages go on. The threads are daemons, so they do not keep
the API server from ending. A read of commits starts further threads, which are not daemons (`log/commit_infos.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Any, Generic, TypeVar

from deltalite.inspection.shown_texts import shown_text
from deltalite.inspection.table_rows import RowError

T = TypeVar("T")
_log = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0


@dataclass(slots=True)
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
        except BaseException as error:  # noqa: BLE001  neither must an exit that a client of a storage raises
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


class ReadPool:
    """Threads for reads, some for each storage. `max_waiting` bounds the queue of a storage."""

    def __init__(self, *, threads_per_storage: int = 4, max_waiting: int = 10_000) -> None:
        self._threads_per_storage = threads_per_storage
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._queues: dict[str, Queue[Read[Any]]] = {}
        self._threads: dict[str, int] = {}
        self._running: dict[Hashable, Read[Any]] = {}

    def read(self, storage: str, key: Hashable, run: Callable[[], T]) -> Read[T]:
        """Start a read, or return the read with the same key that has not ended."""
        with self._lock:
            running = self._running.get(key)
            if running is not None:
                return running
            new_read: Read[T] = Read(run=run)
            queue = self._queues.setdefault(storage, Queue(self._max_waiting))
            try:
                queue.put_nowait(new_read)
            except Full:
                new_read.error = RowError(
                    kind="Overloaded",
                    message=f"Too many reads wait for {shown_text(storage)}. Try again in a minute.",
                    is_retryable=True,
                )
                new_read.finish()
                return new_read
            self._running[key] = new_read
            new_read.when_done(lambda: self._forget(key))
            if self._threads.get(storage, 0) < self._threads_per_storage:
                self._start_thread(storage, queue)
            return new_read

    def _start_thread(self, storage: str, queue: Queue[Read[Any]]) -> None:
        thread = threading.Thread(target=self._work, args=(storage, queue), name="deltalite-page", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread; the next read of the storage tries again
            _log.warning("Could not start a thread for reads of %s.", storage, exc_info=True)
            return
        self._threads[storage] = self._threads.get(storage, 0) + 1

    def _forget(self, key: Hashable) -> None:
        # A refused read ends while `read` holds the lock, and was never stored.
        self._running.pop(key, None)

    def _work(self, storage: str, queue: Queue[Read[Any]]) -> None:
        while True:
            try:
                queue.get(timeout=_IDLE_SECONDS).execute()
            except Empty:
                with self._lock:
                    if queue.empty():
                        self._threads[storage] -= 1
                        return


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
