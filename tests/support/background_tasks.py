"""A task that runs in a thread, so that a test can act while it runs."""

from __future__ import annotations

import threading
from typing import Any, Self

from airflow.providers.common.compat.sdk import AirflowException


class BackgroundTask:
    """Runs a callable in a thread, inside a context. `errors` has the Airflow exception that it raised, if any."""

    def __init__(self, run: Any) -> None:
        self.errors: list[AirflowException] = []
        self._run = run
        self._thread = threading.Thread(target=self._collect_error, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None:  # after a failure of the test, a failure of the task would hide it
            self.wait()

    def wait(self, seconds: float = 180) -> None:
        """Wait until the task has ended."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the task did not end in {seconds} s"

    def _collect_error(self) -> None:
        try:
            self._run()
        except AirflowException as error:
            self.errors.append(error)
