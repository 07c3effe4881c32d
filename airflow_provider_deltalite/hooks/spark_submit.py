"""Airflow's hook for spark-submit, with one job to submit and an ear for what the job says.

Arguments, connections, tracking and killing are the base class's own. Added are: the job's script, library and request;
the output, of which markers and traceback are kept and every other line is logged at its own level; the exit code of
the job, wherever it ran; secret settings, which go into a private file and not into arguments; the interpreter of the
driver, which is this one where the driver runs on this worker; and a kill that gives the driver time to clean up.
Private methods of the base class are overridden, and contract tests watch over them.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, cast

import psutil
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import conf as airflow_settings

from airflow_provider_deltalite.links.delta import host_of
from airflow_provider_deltalite.output import JobOutput, LevelledLog, bounded_lines, spark_threshold
from airflow_provider_deltalite.preflight import (
    Launch,
    check_launch,
    found_connection,
    lacking_connectors,
    mixed_pyspark,
)
from airflow_provider_deltalite.secrets import (
    hide,
    java_options_file,
    java_options_in_files,
    properties_text,
    without_secrets,
    write_private,
)
from deltalite.errors import InvalidRequestError
from deltalite.installation.spark import find_spark_submit
from deltalite.redaction import secret_values, shows_secret
from deltalite.results import JobStarted
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_deltalite.shipping import ShippedJob
    from deltalite.results import JobError, OperationResult

_PYTHON_VARIABLES = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"})
_PYTHON_SETTINGS = frozenset({"spark.pyspark.python", "spark.pyspark.driver.python"})
_LEVEL_SETTING = "spark.log.level"
_WAIT_SETTING = "spark.yarn.submit.waitAppCompletion"
# How clusters tell the exit code of a driver: YARN's diagnostics, the hook's words on a pod, Spark's own on Kubernetes.
_DRIVER_ENDED = re.compile(r"(?:exited with status|[eE]xit ?[cC]ode:|exit_code=)\s*(\d+)")
_HISTORY_EXTRA, _HISTORY_SETTING = "spark-history-server", "spark.yarn.historyServer.address"
# Where Spark takes the host in the address of its UI from (org.apache.spark.ui.WebUI, org.apache.spark.util.Utils).
_UI_SETTINGS = ("spark.driver.host", "spark.ui.reverseProxyUrl")
_UI_VARIABLES = ("SPARK_PUBLIC_DNS", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP")
_JVM_OPTIONS = "SPARK_SUBMIT_OPTS"  # becomes arguments of the JVM (bin/spark-class)
_GRACE_SECONDS = 3.0  # Airflow kills a task that does not end within five


class DeltaSparkSubmitHook(SparkSubmitHook):
    """Submit one shipped job, and remember what it said.

    The constructor is the gate: a hook that exists has passed the preflight checks.

    :param job: What travels to Spark.
    :param yarn_track_via_rm_api: As in ``SparkSubmitHook``; None is True where the ResourceManager can be asked.
    :param on_start: Is called with the job's Spark application, as soon as the job or its cluster says it.
    :param hidden: Secrets that are stars in all that is said of the job's output.
    :param spark: The other parameters of ``SparkSubmitHook``.
    """

    _output_log: LevelledLog | None = None  # set while output is read

    def __init__(
        self,
        *,
        job: ShippedJob,
        yarn_track_via_rm_api: bool | None = None,
        on_start: Callable[[JobStarted], None] | None = None,
        hidden: Collection[str] = (),
        **spark: Any,
    ) -> None:
        self._found = found_connection(spark["conn_id"])
        try:
            super().__init__(**spark, yarn_track_via_rm_api=yarn_track_via_rm_api is not False)
            self._yarn_track_via_rm_api = self._can_track() if yarn_track_via_rm_api is None else yarn_track_via_rm_api
            self._check_tracking()
        except (ValueError, RuntimeError) as error:  # an extra that is not allowed, or a missing Kubernetes client
            raise InvalidRequestError(str(error), remedy=f"Correct the connection '{spark['conn_id']}'.") from error
        except NameError as error:  # how the base class finds out that the Kubernetes provider is missing
            raise InvalidRequestError(
                f"The connection '{spark['conn_id']}' names a Kubernetes master, and this worker has no client for it.",
                remedy="Install apache-airflow-providers-cncf-kubernetes.",
            ) from error
        self._script = job.script
        self._settings = job.settings
        self._output = JobOutput(
            self.log.info, on_start, hidden, nonce=job.nonce, spark_level=spark_threshold(self._spark_log_level())
        )
        self._on_start = on_start
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

    def get_connection(self, conn_id: str) -> Connection:  # type: ignore[override]  # a class method there
        """The Spark connection as it was found: asked again, and not answered, it would be YARN, or end a job's log."""
        return self._found if conn_id == self._found.conn_id else super().get_connection(conn_id)

    def _spark_log_level(self) -> str:
        """The lowest level of Spark's lines in the task's log: the one of the task's `conf`, or the setting."""
        return str(
            self._conf.get(_LEVEL_SETTING) or airflow_settings.get("deltalite", "spark_log_level", fallback="WARN")
        )

    def _can_track(self) -> bool:
        try:
            self._validate_yarn_track_via_rm_api_config()
        except (ValueError, RuntimeError):  # no YARN cluster, no address, or no client for Kerberos
            return False
        return True

    @property
    def cannot_be_joined(self) -> bool:
        """Whether the job runs in a YARN cluster, and another try has no way to ask for it."""
        return bool(self._is_yarn_cluster_mode and not self._yarn_track_via_rm_api)

    def _check_tracking(self) -> None:
        """What the base class refuses when a job is submitted or tracked, refused before it is."""
        if self._track_driver_via_k8s_api:
            self._validate_track_driver_via_k8s_api_config()
        self._validate_yarn_track_via_rm_api_config()
        waits = str(self._conf.get(_WAIT_SETTING, "false")).strip().lower()
        if self._should_track_yarn_application_via_rm_api() and waits != "false":
            raise ValueError(f"{_WAIT_SETTING} is '{waits}', and a job that is tracked is not waited for.")

    def warn_of_mixed_pyspark(self) -> None:
        """Log a warning if two PySpark packages were installed over each other; the job is tried all the same.

        A job of spark-submit takes its Python files from an archive beside the jars, if that archive is there.
        """
        if files := mixed_pyspark(self.launch):
            self.log.warning("%s %s", files.problem, files.remedy)

    def warn_of_missing_connectors(self, addresses: Iterable[str]) -> None:
        """Say which jar Spark will probably miss to reach these tables; it is tried all the same."""
        given = {
            **self._conf,
            "jars": self._jars,
            "packages": self._packages,
            "classpath": self._driver_class_path,
            "a properties file may name jars": self._properties_file,
        }
        schemes = {parse_location(address).scheme for address in addresses}
        for jar in lacking_connectors(self.launch, schemes, [str(name) for name, value in given.items() if value]):
            self.log.warning(
                "This Spark seems to have no %s, by which it would reach the table. Put the jar of its Hadoop version "
                "into its folder `jars`, or name it by `packages`, `jars` or spark-defaults.conf.",
                jar,
            )

    @property
    def log(self) -> Any:
        """The logger; while output is read, one that knows the levels of its lines."""
        return self._output_log or super().log

    @property
    def result(self) -> OperationResult | None:
        """What the job said that it did."""
        return self._output.result

    @property
    def error(self) -> JobError | None:
        """The error that the job said."""
        return self._output.error

    @property
    def traceback(self) -> str | None:
        """The Python traceback of that error."""
        return self._output.traceback

    @property
    def left_out(self) -> str:
        """The newest lines of Spark's log that the task's log does not have."""
        return self._output.left_out

    @property
    def was_submitted(self) -> bool:
        """Whether spark-submit was started by this hook, or an application joined that it had submitted before."""
        return self._submit_sp is not None or self._tracked_id is not None

    @property
    def _tracked_id(self) -> str | None:
        found: str | None = self._yarn_application_id or self._kubernetes_driver_pod
        return found

    def exit_code_of_job(self, raised: Exception | None = None) -> int | None:
        """The exit code of the job's driver, None where nobody told it.

        That of spark-submit where the driver ran in it; else what the cluster said of the driver, in the words of
        `raised` or in the output.
        """
        process: int | None = None if self._submit_sp is None else self._submit_sp.returncode
        if not self.launch.in_cluster:
            return process
        told = [str(raised or ""), *self._last_submit_log_lines]
        found = [int(code) for text in told for code in _DRIVER_ENDED.findall(text)]
        return found[-1] if found else None

    def join(self, external_id: str) -> None:
        """Be the hook of an application in a cluster, which an earlier try may have submitted: a kill finds it."""
        if not self._is_yarn_cluster_mode:
            return
        self._yarn_application_id = external_id
        if self._on_start is not None:
            self._on_start(JobStarted(application_id=external_id, ui_url=None))

    @property
    def history_server(self) -> str | None:
        """Where Spark's history server is: an extra of the connection, or Spark's own setting for YARN."""
        named = self.get_connection(self._conn_id).extra_dejson.get(_HISTORY_EXTRA)
        return named or self._conf.get(_HISTORY_SETTING)

    @property
    def resource_manager(self) -> str | None:
        """The web address of YARN's ResourceManager, where the connection names it."""
        try:
            address: str = self._get_yarn_rm_base_url() if self._is_yarn else ""
        except ValueError:
            return None
        return address or None

    @property
    def ui_hosts(self) -> frozenset[str]:
        """The hosts on which Spark shows this application: this worker, the master, YARN's and the history server's."""
        named = [self.launch.master, self.resource_manager, self.history_server]
        named += [self._conf.get(setting) for setting in _UI_SETTINGS]
        named += [self.launch.environ.get(variable) for variable in _UI_VARIABLES]
        hosts = {host for address in named if address and (host := host_of(str(address)))}
        return frozenset(hosts | _names_of_this_worker())

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Submit the job, with the script that came with it unless Spark has one of its own.

        :param application: The script, where the user has named it.
        :param kwargs: Parameters of ``subprocess.Popen``.
        """
        try:
            # A line that quotes a file may hold bytes that are no text, and must not end the reading of the output.
            driver_id: str | None = super().submit(application or self._script, **{"errors": "replace", **kwargs})
        finally:
            if self._submit_sp is not None:
                self._submit_sp.stdout.close()  # which the base class leaves to the garbage collector
        return driver_id

    def on_kill(self) -> None:
        """Kill the job: a driver on this worker is asked to end first, so that it takes back what nobody will see."""
        running = self._submit_sp if self._submit_sp and self._submit_sp.poll() is None else None
        processes = _tree(running.pid) if running else []
        if running and not self.launch.in_cluster:
            _end(processes)
            with suppress(TimeoutExpired):
                running.wait(_GRACE_SECONDS)  # psutil would take its exit code away from who waits for the job
        try:
            super().on_kill()
        except FileNotFoundError as error:
            self.log.warning(
                "%s may go on, for this worker has no program '%s' to end it.",
                self._yarn_application_id,
                error.filename,
            )
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _get_spark_binary_path(self) -> list[str]:
        return [find_spark_submit(self._connection["spark_binary"], self.launch.environ)]

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        given = {name: str(value) for name, value in (self._env or {}).items()}
        if shows_secret("", options := given.get(_JVM_OPTIONS, "")):
            given[_JVM_OPTIONS] = java_options_file(options, Path(self._settings).with_name(f"{_JVM_OPTIONS}.args"))
        self._env = default_python(self.launch, self._conf) | given
        return command

    def _build_spark_common_args(self) -> list[str]:
        """The arguments; secret settings are in a properties file, after those of the user's own."""
        arguments, secrets = without_secrets(super()._build_spark_common_args())
        if not secrets:
            return arguments
        hide(secrets)
        self._output.hide(secret_values(secrets))
        if not self.launch.in_cluster:
            secrets = java_options_in_files(secrets, Path(self._settings).parent)
        if self._properties_file is None:
            base, others = "", ["--load-spark-defaults"]
            named = ["--properties-file", self._settings]
        else:
            base, others, named = Path(self._properties_file).read_text(encoding="utf-8"), [], []
            arguments = [self._settings if given == self._properties_file else given for given in arguments]
        write_private(self._settings, properties_text(secrets, base=base))
        return [*arguments, *named, *others]

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        self._output_log = LevelledLog(cast("logging.Logger", super().log), self._output.leaves_out)
        try:
            super()._process_spark_submit_log(self._output.to_log(bounded_lines(itr)))
        finally:
            self._output_log = None


def default_python(launch: Launch, conf: Mapping[str, object]) -> dict[str, str]:
    """The environment variable that names this interpreter to Spark, unless the user has named one.

    A variable, because it yields to every other way to name an interpreter, a properties file too. With a local master
    it is the interpreter of everything; in client mode of the driver alone, because executors have other paths; and in
    cluster mode nothing of Spark's Python runs on this worker.
    """
    if launch.in_cluster or _PYTHON_VARIABLES & set(launch.environ) or _PYTHON_SETTINGS & set(conf):
        return {}
    return {"PYSPARK_PYTHON" if launch.is_local else "PYSPARK_DRIVER_PYTHON": sys.executable}


def _names_of_this_worker() -> set[str]:
    addresses = {one.address.partition("%")[0] for many in psutil.net_if_addrs().values() for one in many}
    return {"localhost", socket.gethostname(), socket.getfqdn(), *addresses}


def _joined(*lists: str | None) -> str:
    """Comma-separated lists as one."""
    return ",".join(one for one in lists if one)


def _tree(pid: int) -> list[psutil.Process]:
    """A process and all below it."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _end(processes: list[psutil.Process]) -> None:
    """Ask Python's driver to end, which needs the JVM above to clean up, and takes it along; without one, the JVM."""
    drivers = [process for process in processes[1:] if _is_python(process)]
    for process in drivers or processes[:1]:
        with suppress(psutil.NoSuchProcess):
            process.terminate()


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.NoSuchProcess:
        return False
