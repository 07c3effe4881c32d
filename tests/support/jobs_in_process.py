"""Runs the jobs of a DAG in the Spark session of the tests, because `spark-submit` takes many seconds for each job."""

from __future__ import annotations

import io
import logging
import runpy
import sys
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

from airflow_provider_deltalite.job_submitter import JobState, SparkJob
from deltalite.jobs import runner


class JobsInProcess:
    """A `JobSubmitter` that runs the script of a job in this process, with the session that is open."""

    def __init__(self) -> None:
        self.submitted_names: list[str] = []
        self._states: dict[str, JobState] = {}
        self._logs: dict[str, list[str]] = {}

    def submit(self, job: SparkJob) -> str:
        """Run the job to its end."""
        output = io.StringIO()
        level = logging.getLogger("deltalite").level
        try:
            with (
                patch.object(sys, "argv", [job.script, job.request]),
                patch.object(runner, "_stop_spark"),
                redirect_stdout(output),
            ):
                runpy.run_path(job.script, run_name="__main__")
        except SystemExit as end:
            self._states[job.job_id] = JobState.FAILED if end.code else JobState.SUCCEEDED
        finally:
            logging.getLogger("deltalite").setLevel(level)
        self.submitted_names.append(job.name)
        self._logs[job.job_id] = output.getvalue().splitlines()
        return job.job_id

    def state(self, job_id: str) -> JobState:
        """Return the state in which the job ended."""
        return self._states.get(job_id, JobState.MISSING)

    def read_log(self, job_id: str) -> list[str]:
        """Return the lines that the job printed."""
        return self._logs[job_id]

    def kill(self, job_id: str) -> None:
        """Do nothing, because `submit` returns after the end of the job."""

    def clean_up(self, job_id: str) -> None:
        """Do nothing, because `submit` copies no file."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Raise an error, because no trigger in another process can read the state of a job."""
        raise AssertionError("A job in the process of the tests cannot be joined by a trigger.")
