"""The interface between an operator and a service that runs its Spark job, for the parameter ``submit_with``.

By default the operators call `spark-submit`. A class with the methods of `JobSubmitter` hands the job to another
service instead, such as a Livy server. The operator calls the methods in this order:

1. In a retry with ``durable``: `state` of the job of the earlier attempt. The retry joins a job that still runs.
2. `submit`. The operator stores the id before it waits.
3. `state`, until the job has ended. With ``deferrable=True`` the triggerer does this step, with a submitter that it
   makes from the values of `serialize`.
4. `read_log`. The lines have the job's result, or its error with the traceback.
5. `clean_up`.

If the task is stopped, the operator, or its trigger in the triggerer, calls `kill` and `clean_up`. A submitter holds
no state of a job, because steps may run in different processes. The table's log still decides whether the run has
committed, so a job that the service runs twice writes once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol, cast

from deltalite.errors import InvalidRequestError


class JobState(StrEnum):
    """The state of a job in the service."""

    RUNNING = "running"  # or waiting for its start
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or killed
    MISSING = "missing"  # the service does not know the job


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """A Python application for Spark, with its files on this worker.

    The service runs ``script`` with one argument: the path of the request, or only its file name if Spark distributes
    the file. The driver needs Python 3.11 or later with pyarrow.

    :param job_id: A unique id that everybody may see.
    :param name: The name of the Spark application.
    :param script: The path of the script.
    :param library: The path of the zip file for ``--py-files``.
    :param request: The path of the request file. It may contain secrets, so only the job may read a copy of it. The
        operator deletes this file when the task ends or defers.
    :param conf: Spark's settings. They may contain secrets.
    :param parameters: The other parameters of ``SparkSubmitOperator`` that the task sets, such as ``driver_memory`` or
        ``packages``. A submitter raises `InvalidRequestError` for a parameter that it does not support.
    """

    job_id: str
    name: str
    script: str
    library: str
    request: str
    conf: Mapping[str, str]
    parameters: Mapping[str, Any]


class JobSubmitter(Protocol):
    """A way to run a Spark job.

    The parameter `job_id` is the id that `submit` has returned, not `SparkJob.job_id`.

    An `InvalidRequestError` (`deltalite.errors`) means that the service refuses the request. If `submit` raises it, the
    task fails for good; after any other exception, Airflow retries the task. If `state` raises it in three polls in a
    row, the operator stops waiting; after any other exception, the operator polls again for up to 15 minutes.
    """

    def submit(self, job: SparkJob) -> str:
        """Hand over the job, and return an id under which every process finds it. Do not wait for its end.

        The method copies the files to a place that the driver reads, and removes the copies if it raises.
        """

    def state(self, job_id: str) -> JobState:
        """Return the state of a job. The method sends one request, because it may run in the triggerer."""

    def read_log(self, job_id: str) -> Iterable[str]:
        """Return the lines of the driver's output, at least the last ones.

        The operator calls this after the end of the job, or when it stops waiting. Without the lines, it finds a commit
        in the table's log, but not the job's error.
        """

    def kill(self, job_id: str) -> None:
        """End the job. Do nothing if it has ended."""

    def clean_up(self, job_id: str) -> None:
        """Remove the copies of the files.

        The operator calls this after the end of the job or after `kill`, even if `kill` failed. It may call it again.
        """

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the dotted path of this class and the arguments of its constructor, as a trigger does.

        Airflow stores the values in its database, so they name a connection and contain no secret.
        """


def load_submitter(dotted_path: str, arguments: Mapping[str, Any]) -> JobSubmitter:
    """Make an object of the class at a dotted path.

    Raises:
        InvalidRequestError: There is no such class, or its constructor does not accept the arguments.
    """
    module, _, name = dotted_path.rpartition(".")
    try:
        return cast("JobSubmitter", getattr(import_module(module), name)(**arguments))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"Could not make the job submitter {dotted_path}: {error}.",
            remedy="In submit_with, name an importable class whose constructor takes "
            f"{', '.join(arguments) or 'no arguments'}, or give an object of the class.",
        ) from error
