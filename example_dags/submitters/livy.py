"""Runs the jobs of Delta tasks as batches of a Livy server. To use it, put this file into Airflow's plugins folder."""

# [START livy_submitter]
from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import requests
from airflow.sdk import ObjectStoragePath
from airflow.sdk.bases.hook import BaseHook

from airflow_provider_deltalite.job_submitter import JobState, SparkJob
from deltalite.errors import InvalidRequestError

STATES = {
    "success": JobState.SUCCEEDED,
    "dead": JobState.FAILED,
    "error": JobState.FAILED,
    "killed": JobState.FAILED,
}
# Livy's fields for parameters of SparkSubmitOperator. Livy takes the first group as lists.
LIST_FIELDS = {"files": "files", "jars": "jars", "archives": "archives", "py_files": "pyFiles"}
FIELDS = {
    "driver_memory": "driverMemory",
    "executor_memory": "executorMemory",
    "executor_cores": "executorCores",
    "num_executors": "numExecutors",
    "yarn_queue": "queue",
    "proxy_user": "proxyUser",
}
LINES_IN_REQUEST = 1000


class LivySubmitter:
    """Submit jobs to the Livy server of an HTTP connection. Its extra `staging` names a folder for the jobs' files.

    The worker writes to the folder, and Livy's Spark reads it. Other users must not read it, because requests may
    contain secrets.
    """

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this object."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"conn_id": self.conn_id}

    def submit(self, job: SparkJob) -> str:
        """Copy the files of the job, and create a batch."""
        if unknown_parameters := job.parameters.keys() - LIST_FIELDS.keys() - FIELDS.keys():
            raise InvalidRequestError(
                f"Livy has no field for {', '.join(sorted(unknown_parameters))}.",
                remedy="Leave the parameters out, or use the equivalent settings in `conf`.",
            )
        lists = {field: [] for field in LIST_FIELDS.values()}
        for name in LIST_FIELDS.keys() & job.parameters.keys():
            lists[LIST_FIELDS[name]] += job.parameters[name].split(",")
        try:
            script = job.script if ":" in job.script else self._copy(job.script, job.job_id)
            lists["pyFiles"].insert(0, self._copy(job.library, job.job_id))
            lists["files"].append(self._copy(job.request, job.job_id))
            batch = self._send(
                "POST",
                "/batches",
                json={
                    # Livy may use an id again after a restart. `_batch` then compares the name.
                    "name": f"{job.name} {job.job_id}",
                    "file": script,
                    "args": [PurePath(job.request).name],
                    "conf": dict(job.conf),
                    **{field: values for field, values in lists.items() if values},
                    **{FIELDS[name]: value for name, value in job.parameters.items() if name in FIELDS},
                },
            ).json()
        except BaseException:
            self._remove_copies(job.job_id)
            raise
        return f"{batch['id']}/{job.job_id}"

    def state(self, job_id: str) -> JobState:
        """Return the state of the batch."""
        batch = self._batch(job_id)
        return JobState.MISSING if batch is None else STATES.get(batch["state"], JobState.RUNNING)

    def read_log(self, job_id: str) -> Iterable[str]:
        """Return the lines that Livy keeps: the last 200, unless `livy.cache-log.size` is larger."""
        number, _, _ = job_id.partition("/")
        lines: list[str] = []
        while True:
            parameters = {"from": len(lines), "size": LINES_IN_REQUEST}
            answer = self._send("GET", f"/batches/{number}/log", params=parameters).json()
            lines += answer["log"]
            if not answer["log"] or len(lines) >= answer["total"]:
                return [part for line in lines for part in line.splitlines()]

    def kill(self, job_id: str) -> None:
        """Delete the batch, which ends its application."""
        if self._batch(job_id) is not None:
            self._send("DELETE", f"/batches/{job_id.partition('/')[0]}")

    def clean_up(self, job_id: str) -> None:
        """Remove the copies of the job's files."""
        self._remove_copies(job_id.partition("/")[2])

    def _batch(self, job_id: str) -> dict[str, Any] | None:
        """Return the batch; None if Livy does not know it."""
        number, _, name = job_id.partition("/")
        answer = self._send("GET", f"/batches/{number}", accepted_status=404)
        batch = answer.json() if answer.ok else {}
        return batch if str(batch.get("name")).endswith(name) else None

    def _send(self, method: str, path: str, *, accepted_status: int = 200, **arguments: Any) -> requests.Response:
        connection = BaseHook.get_connection(self.conn_id)
        scheme = connection.schema or "http"
        answer = requests.request(
            method,
            f"{scheme}://{connection.host}:{connection.port or 8998}{path}",
            auth=(connection.login, connection.password or "") if connection.login else None,
            headers={"X-Requested-By": "airflow"},
            timeout=60,
            **arguments,
        )
        if answer.status_code in (400, 401, 403):
            raise InvalidRequestError(
                f"Livy refused {method} {path} with HTTP {answer.status_code}: {answer.text}",
                remedy=f"Correct the task, or the connection '{self.conn_id}'.",
            )
        if answer.status_code != accepted_status:
            answer.raise_for_status()
        return answer

    def _folder(self, name: str) -> ObjectStoragePath:
        staging = BaseHook.get_connection(self.conn_id).extra_dejson.get("staging")
        if not staging:
            raise InvalidRequestError(
                f"The connection '{self.conn_id}' names no folder for the files of jobs.",
                remedy="""Set the extra "staging", such as {"staging": "s3://aws_default@bucket/private/staging"}.""",
            )
        return ObjectStoragePath(staging) / name

    def _copy(self, file: str, folder_name: str) -> str:
        """Copy a file of this worker, and return the address for Spark."""
        folder = self._folder(folder_name)
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / PurePath(file).name
        with open(file, "rb") as content:
            copy.write_bytes(content.read())
        # fsspec and Hadoop have different names for S3.
        scheme = {"s3": "s3a"}.get(copy.protocol, copy.protocol)
        return f"{scheme}://{copy.path}"

    def _remove_copies(self, folder_name: str) -> None:
        folder = self._folder(folder_name)
        if folder.exists():
            folder.rmdir(recursive=True)


# [END livy_submitter]
