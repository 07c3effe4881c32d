"""Airflow's hook for spark-submit, with one job to submit and an ear for what the job says.

Arguments, connections, tracking and killing are the base class's own. Added are: the job's script, library and request;
the marker lines, which are picked out of the output and remembered, while every other line is logged as usual; the exit
code; and the interpreter of the driver, which is this one where the driver runs on this worker. Three private methods
of the base class are overridden, and a contract test watches over them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_deltalite.preflight import Launch, check_connection, check_launch, find_spark_submit
from deltalite.errors import InvalidRequestError
from deltalite.results import JobError, OperationResult, parse_marker

if TYPE_CHECKING:
    from airflow_provider_deltalite.shipping import ShippedJob

_PYTHON_VARIABLES = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"})
_PYTHON_SETTINGS = frozenset({"spark.pyspark.python", "spark.pyspark.driver.python"})


class DeltaSparkSubmitHook(SparkSubmitHook):
    """Submit one shipped job, and remember what it said.

    The constructor is the gate: a hook that exists has passed the preflight checks.

    :param job: What travels to Spark.
    :param spark: The parameters of ``SparkSubmitHook``.
    """

    def __init__(self, *, job: ShippedJob, **spark: Any) -> None:
        check_connection(spark["conn_id"])
        try:
            super().__init__(**spark)
        except (ValueError, RuntimeError) as error:  # an extra that is not allowed, or a missing Kubernetes client
            raise InvalidRequestError(str(error), remedy=f"Correct the connection '{spark['conn_id']}'.") from error
        except NameError as error:  # how the base class finds out that the Kubernetes provider is missing
            raise InvalidRequestError(
                f"The connection '{spark['conn_id']}' names a Kubernetes master, and this worker has no client for it.",
                remedy="Install apache-airflow-providers-cncf-kubernetes.",
            ) from error
        self._script = job.script
        self.result: OperationResult | None = None
        self.error: JobError | None = None
        self.launch = Launch(
            conn_id=self._conn_id,
            master=self._connection["master"],
            deploy_mode=self._connection["deploy_mode"] or self._conf.get("spark.submit.deployMode"),
            binary=self._connection["spark_binary"],
            environ={**os.environ, **{name: str(value) for name, value in (self._env_vars or {}).items()}},
        )
        check_launch(self.launch)
        self._py_files = _joined(job.library, self._py_files)
        if self.launch.in_cluster:
            self._files = _joined(self._files, job.request)
            self._application_args = [os.path.basename(job.request)]
        else:
            self._application_args = [job.request]

    @property
    def exit_code(self) -> int | None:
        """The exit code of spark-submit; None where it was not started or has not ended."""
        return None if self._submit_sp is None else self._submit_sp.returncode

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Submit the job, with the script that came with it unless Spark has one of its own.

        :param application: The script, where the user has named it.
        :param kwargs: Parameters of ``subprocess.Popen``.
        """
        try:
            driver_id: str | None = super().submit(application or self._script, **kwargs)
        finally:
            if self._submit_sp is not None:
                self._submit_sp.stdout.close()  # which the base class leaves to the garbage collector
        return driver_id

    def _get_spark_binary_path(self) -> list[str]:
        return [find_spark_submit(self._connection["spark_binary"], self.launch.environ)]

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        given = {name: str(value) for name, value in (self._env or {}).items()}
        self._env = default_python(self.launch, self._conf) | given
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._without_markers(itr))

    def _without_markers(self, lines: Iterator[Any]) -> Iterator[Any]:
        for line in lines:
            match parse_marker(line):
                case None:
                    yield line
                case OperationResult() as result:
                    self.result = result
                case JobError() as error:
                    self.error = error


def default_python(launch: Launch, conf: Mapping[str, object]) -> dict[str, str]:
    """The environment variable that names this interpreter to Spark, unless the user has named one.

    A variable, because it yields to every other way to name an interpreter, a properties file too. With a local master
    it is the interpreter of everything; in client mode of the driver alone, because executors have other paths; and in
    cluster mode nothing of Spark's Python runs on this worker.
    """
    if launch.in_cluster or _PYTHON_VARIABLES & set(launch.environ) or _PYTHON_SETTINGS & set(conf):
        return {}
    return {"PYSPARK_PYTHON" if launch.is_local else "PYSPARK_DRIVER_PYTHON": sys.executable}


def _joined(*lists: str | None) -> str:
    """Comma-separated lists as one."""
    return ",".join(one for one in lists if one)
