"""The end of a job at SIGTERM: Spark's jobs are cancelled, and the main thread gets `SystemExit`.

While the main thread waits for an answer of the JVM, an exception would leave the answer unread. The thread's next
call, such as the removal of its uncommitted files, would then wait until the JVM has ended the first call, and would
read the wrong answer. So the thread gets the exception when the call has ended. A call that waits for a Spark job ends
soon, because another thread cancels the job.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_CANCEL_PAUSE_SECONDS = 0.2


def cancel_jobs_until(has_ended: Callable[[float], bool], context: SparkContext) -> None:
    """Cancel Spark's jobs until `has_ended` returns true, because any thread may be about to submit another job.

    `has_ended` gets a number of seconds. It waits up to this time for the end of the caller's work, and returns whether
    the work has ended.
    """
    while True:
        with suppress(Exception):  # Spark may have ended, and its error must not replace an error of the caller
            context.cancelAllJobs()
        if has_ended(_CANCEL_PAUSE_SECONDS):
            return


def collect_to_arrow(frame: DataFrame) -> pa.Table:
    """Return `frame.toArrow()`. At SIGTERM, `SystemExit` waits for its end, as it waits for a call to the JVM.

    `toArrow` waits for its Spark job outside of calls to the JVM. If `SystemExit` interrupted this wait, the cleanup of
    `toArrow` would replace it with the error of the cancelled job.
    """
    watching = Termination.watching
    with nullcontext() if watching is None else watching.one_call():
        return frame.toArrow()


class Termination:
    """A block in the main thread. The first SIGTERM raises `SystemExit` there; the block ignores a later SIGTERM."""

    watching: ClassVar[Termination | None] = None
    """The block that watches a session, if any."""

    def __init__(self) -> None:
        self._exit_code: int | None = None
        self._is_raised = False
        self._open_calls = 0
        self._thread: int | None = None
        self._has_ended = threading.Event()
        self._context: SparkContext | None = None
        self._stop_watching: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        self._old_handler = signal.signal(signal.SIGTERM, self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._has_ended.set()
        self._stop_watching()
        Termination.watching = None
        signal.signal(signal.SIGTERM, self._old_handler)

    def watch(self, spark: SparkSession) -> None:
        """Let SIGTERM cancel Spark's jobs, and delay `SystemExit` until a running call to the JVM has ended.

        If PySpark lacks the attributes that this needs, `SystemExit` interrupts the call, and no job is cancelled.
        """
        client = getattr(getattr(spark.sparkContext, "_gateway", None), "_gateway_client", None)
        send_command = getattr(client, "send_command", None)
        if client is None or send_command is None:
            return
        self._context = spark.sparkContext
        self._thread = threading.get_ident()

        def send_and_wait(*arguments: Any, **options: Any) -> Any:
            with self.one_call():
                return send_command(*arguments, **options)

        client.send_command = send_and_wait
        self._stop_watching = lambda: delattr(client, "send_command")
        Termination.watching = self

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Let `SystemExit` wait until the block in the watched thread has ended."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._open_calls += 1
        try:
            yield
        finally:
            self._open_calls -= 1
            self._raise_if_due()

    def _end(self, signal_number: int, _frame: object) -> None:
        if self._exit_code is not None:
            return
        self._exit_code = 128 + signal_number
        threading.Thread(target=self._cancel_jobs, name="termination", daemon=True).start()
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        """Raise `SystemExit` once, outside of all calls to the JVM.

        Calls may be nested, because the JVM may call Python, which calls the JVM, and because `collect_to_arrow` calls
        the JVM.
        """
        if self._exit_code is not None and not self._open_calls and not self._is_raised:
            self._is_raised = True
            raise SystemExit(self._exit_code)

    def _cancel_jobs(self) -> None:
        if self._context is not None:
            cancel_jobs_until(self._has_ended.wait, self._context)
