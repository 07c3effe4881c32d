"""The hook that submits one job with spark-submit and reads its output.

The base class handles arguments, connections, tracking and killing. This class adds:

- the job's script, library and request;
- the output: the hook keeps the job's result, error and traceback, and logs each other line at its level;
- the exit code of the job, also if the driver ran in a cluster;
- the output of a driver in YARN or in a pod of Kubernetes;
- secret settings, which go into a private file, or a Secret of Kubernetes, and not into arguments;
- the worker's own Python interpreter, for a driver on this worker;
- the identity of the driver, and a kill that gives it time to clean up (`_driver.py`);
- the decision whether the driver's state is tracked in its cluster (`_tracking.py`).

This class overrides private methods of the base class. Contract tests check these methods.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.clusters.kubernetes_api import CLIENT_PACKAGE_REMEDY, has_client, load_client
from airflow_provider_deltalite.clusters.pod_secrets import REQUEST_IN_POD, SCRIPT_IN_POD
from airflow_provider_deltalite.clusters.pod_submission import PodSubmission
from airflow_provider_deltalite.clusters.reports import ClusterReports
from airflow_provider_deltalite.clusters.yarn_log import read_yarn_driver_log
from airflow_provider_deltalite.exposed_secrets import check_repositories, check_secrets_in_cluster
from airflow_provider_deltalite.hooks._class_archive import make_archive_later
from airflow_provider_deltalite.hooks._jvm_options import options_of_driver
from airflow_provider_deltalite.hooks._settings_file import SettingsFile, read_properties_file, read_settings_file
from airflow_provider_deltalite.hooks._spark_environment import default_python, default_spark_home, hosts_of_web_pages
from airflow_provider_deltalite.hooks._tracking import TrackingHook
from airflow_provider_deltalite.java_options import move_java_options_to_files, write_java_options
from airflow_provider_deltalite.output import JobOutput, LevelledLog, bounded_lines, spark_log_level
from airflow_provider_deltalite.preflight import (
    Launch,
    check_launch,
    find_missing_connectors,
    find_mixed_pyspark,
    get_spark_connection,
)
from airflow_provider_deltalite.secrets import hide
from airflow_provider_deltalite.submit_arguments import split_off_secrets
from deltalite.errors import InvalidRequestError
from deltalite.installation.class_archive import JVM_OPTIONS_VARIABLE
from deltalite.installation.spark import find_spark_submit
from deltalite.redaction import redacted, secret_values, shows_secret
from deltalite.results import JobStarted
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

    from airflow_provider_deltalite.shipping import ShippedJob
    from deltalite.requests import AuditQuestion
    from deltalite.results import JobError, OperationResult


_ATTEMPTS_SETTING = "spark.yarn.maxAppAttempts"
_MODE_SETTING = "spark.submit.deployMode"
_HISTORY_EXTRA, _HISTORY_SETTING = "spark-history-server", "spark.yarn.historyServer.address"


class DeltaSparkSubmitHook(TrackingHook):
    """Submit one job with its files, and keep its result, its error and its traceback.

    The constructor runs the preflight checks, so every hook that exists has passed them.

    :param job: The files of the job: its script, the library, the request and the settings.
    :param yarn_track_via_rm_api: As in ``SparkSubmitHook``. None means True if the ResourceManager can be queried.
    :param track_driver_via_k8s_api: As in ``SparkSubmitHook``. None means True if the driver is a pod of Kubernetes.
    :param on_start: The hook calls this function when the job or its cluster reports the Spark application.
    :param hidden: Secrets that the log of the job's output shows as stars.
    :param hook_parameters: The other parameters of ``SparkSubmitHook``.
    """

    _output_log: LevelledLog | None = None  # None unless the hook is reading output
    _has_read_driver_output = False

    def __init__(
        self,
        *,
        job: ShippedJob,
        yarn_track_via_rm_api: bool | None = None,
        track_driver_via_k8s_api: bool | None = None,
        on_start: Callable[[JobStarted], None] | None = None,
        hidden: Collection[str] = (),
        **hook_parameters: Any,
    ) -> None:
        self._airflow_connection = get_spark_connection(hook_parameters["conn_id"])
        try:
            super().__init__(**hook_parameters, yarn_track_via_rm_api=yarn_track_via_rm_api is not False)
            self._take_deploy_mode_from_conf()
            self.launch = self._make_launch()
            self._check_namespace()
            self._set_tracking(in_yarn=yarn_track_via_rm_api, in_kubernetes=track_driver_via_k8s_api)
        except (ValueError, RuntimeError, NameError) as error:  # for example, an extra has a value that is not allowed
            remedy = f"Correct the connection '{hook_parameters['conn_id']}'."
            if not has_client():  # the base class then raises a RuntimeError or a NameError
                remedy = CLIENT_PACKAGE_REMEDY
            raise InvalidRequestError(str(error), remedy=remedy) from error
        self._job = job
        self._output = JobOutput(
            self.log.info, on_start, hidden, nonce=job.nonce, spark_level=spark_log_level(self._conf)
        )
        self._on_start = on_start
        self._reports = ClusterReports(is_yarn=self._is_yarn)
        check_launch(self.launch)
        check_secrets_in_cluster(self.launch, self._conf, self._env_vars)
        if self.launch.runs_in_pod:
            self._pod_submission = self._make_pod_submission()
        else:
            self._add_files()
        if self._is_yarn_cluster_mode:
            # By default YARN runs a failed driver twice. Airflow's retries know which failures are permanent.
            self._conf = {_ATTEMPTS_SETTING: "1", **self._conf}

    def get_connection(self, conn_id: str) -> Connection:  # type: ignore[override]  # the base class has a class method
        """Return the Spark connection, which is read once by the constructor.

        A second look-up could fail. The base class would then submit to YARN, or the log of a running job would end.
        """
        connection = self._airflow_connection
        return connection if conn_id == connection.conn_id else super().get_connection(conn_id)

    def _take_deploy_mode_from_conf(self) -> None:
        """Use Spark's own setting if neither task nor connection names the deploy mode. The base class ignores it."""
        if not self._connection["deploy_mode"] and (deploy_mode := self._conf.get(_MODE_SETTING)):
            self._connection["deploy_mode"] = deploy_mode
            self._is_yarn_cluster_mode = self._is_yarn and deploy_mode == "cluster"

    def _make_launch(self) -> Launch:
        # On Kubernetes, the base class gives the user's variables to the driver's pod, and not to spark-submit.
        variables = {} if self._is_kubernetes else self._env_vars or {}
        return Launch(
            conn_id=self._conn_id,
            master=self._connection["master"],
            deploy_mode=self._connection["deploy_mode"],
            binary=self._connection["spark_binary"],
            environ={**os.environ, **{name: str(value) for name, value in variables.items()}},
        )

    def _check_namespace(self) -> None:
        if self.launch.runs_in_pod and not self._connection["namespace"]:
            raise InvalidRequestError(
                f"The namespace of the driver's pod is unknown: the connection '{self._conn_id}' names none.",
                remedy="Set the extra 'namespace' of the connection, or spark.kubernetes.namespace in `conf`.",
            )

    def _make_pod_submission(self) -> PodSubmission:
        """Return the submission to Kubernetes. The method sends no request."""
        return PodSubmission(
            load_client(self._conn_id),
            namespace=self._connection["namespace"],
            job=self._job,
            application=self._name or self._job.public_id,
            conf=self._conf,
        )

    def warn_of_mixed_pyspark(self) -> None:
        """Log a warning if two PySpark packages were installed over each other.

        The job is submitted anyway: spark-submit may take its Python files from an archive beside the jars.
        """
        if files := find_mixed_pyspark(self.launch):
            self.log.warning("%s %s", files.problem, files.remedy)

    def warn_of_missing_connectors(self, addresses: Iterable[str]) -> None:
        """Log a warning for each jar that Spark probably lacks to reach these tables. The job is submitted anyway."""
        settings = {
            **self._conf,
            "jars": self._jars or self._properties_file,  # a properties file may name jars
            "packages": self._packages,
            "classpath": self._driver_class_path,
        }
        schemes = {parse_location(address).scheme for address in addresses}
        settings_with_value = [str(name) for name, value in settings.items() if value]
        for jar in find_missing_connectors(self.launch, schemes, settings_with_value):
            self.log.warning(
                "Spark probably lacks the jar %s, which it needs to reach the table. Put the jar into Spark's folder "
                "`jars`, or name it in `packages`, `jars` or spark-defaults.conf. It must fit Spark's Hadoop version.",
                jar,
            )

    @property
    def log(self) -> Any:
        """The logger. While the hook reads output, it logs each line at the level that the line names."""
        return self._output_log or super().log

    @property
    def result(self) -> OperationResult | None:
        """The result that the job reported."""
        return self._output.result

    @property
    def error(self) -> JobError | None:
        """The error that the job reported."""
        return self._output.error

    @property
    def question(self) -> AuditQuestion | None:
        """The question to a person that the job reported."""
        return self._output.question

    @property
    def traceback(self) -> str | None:
        """The Python traceback of the error that the job reported."""
        return self._output.traceback

    @property
    def omitted_lines(self) -> str:
        """The newest lines of Spark's log that the task's log omits."""
        return self._output.omitted_lines

    def exit_code_of_job(self, hook_error: Exception | None = None) -> int | None:
        """Return the exit code of the job's driver; None if it is unknown.

        In client mode it is the exit code of spark-submit. In cluster mode it is the last code that the cluster reports
        in the output, or else the first code in the text of `hook_error`.
        """
        process_exit_code: int | None = None if self._submit_sp is None else self._submit_sp.returncode
        if not self.launch.in_cluster:
            return process_exit_code
        if self._reports.exit_code is not None:
            return self._reports.exit_code
        return self._reports.exit_code_in(str(hook_error or ""))

    def read_driver_output(self) -> None:
        """Read the output of a driver that ended in a cluster, and log it as the output of a local driver.

        The output contains the result, or the error and its traceback. The method reads it only once. If reading fails,
        the method only logs a warning: the job has already ended, so the table's log can still show its commit.
        """
        if self._has_read_driver_output or (read_log := self._driver_log_reader()) is None:
            return
        try:
            lines = read_log()
            self.log.info("Log of the driver of %s:", self.tracked_id)
            with self._levelled_log():
                for line in self._output.to_log(lines, has_ended=True):
                    self.log.info(line)
            self._has_read_driver_output = True
        except Exception as error:  # noqa: BLE001  the docstring gives the reason
            self.log.warning("Could not read the log of the driver of %s: %s", self.tracked_id, redacted(str(error)))

    def _driver_log_reader(self) -> Callable[[], list[str]] | None:
        """Return the function that reads the driver's log from the cluster.

        The result is None if the driver ran on this worker, or if its pod, its application or the address of the
        ResourceManager is unknown.
        """
        if self._pod_submission is not None:
            return None if self._pod_submission.pod is None else self._pod_submission.pod.read_log
        application = self._yarn_application_id
        address = self.resource_manager or self._reports.proxy_address
        if not self._is_yarn_cluster_mode or application is None or address is None:
            return None
        # An address from the output of spark-submit gets no credentials.
        auth = self._resolved_yarn_rm_auth if self.resource_manager else None
        return partial(read_yarn_driver_log, address, application, auth)

    def join(self, external_id: str, *, nonce: str | None = None) -> None:
        """Adopt a driver in a cluster, which an earlier hook may have submitted.

        :param external_id: The YARN application, or a pod as `namespace:name`. `on_kill` kills it from now on.
        :param nonce: The nonce of the markers that this driver prints.
        """
        if nonce is not None and self.launch.in_cluster:
            self._output.expect_nonce(nonce)
        if self.adopt_driver(external_id) and self._on_start is not None:
            self._on_start(JobStarted(application_id=external_id, ui_url=None))

    @property
    def history_server(self) -> str | None:
        """The address of Spark's history server, from the connection's extra or from Spark's setting for YARN."""
        address = self.get_connection(self._conn_id).extra_dejson.get(_HISTORY_EXTRA)
        return address or self._conf.get(_HISTORY_SETTING)

    @property
    def ui_hosts(self) -> frozenset[str]:
        """The hosts that may serve the web pages of this application."""
        return hosts_of_web_pages(self.launch, self._conf, (self.resource_manager, self.history_server))

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Submit the job.

        :param application: The job's script, if the user names one. By default, it is the script that was shipped.
            In a pod, a user's script gets the library with Spark's own upload of files.
        :param kwargs: Parameters of ``subprocess.Popen``.
        """
        # A retry may have adopted the job of an earlier task attempt, which has failed.
        self.forget_driver()
        self._has_read_driver_output = False
        self._output.expect_nonce(self._job.nonce)
        try:
            # A line may quote bytes of a file that are not valid text. They must not stop the hook from reading on.
            driver_id: str | None = super().submit(self._prepare_script(application), **{"errors": "replace", **kwargs})
        finally:
            if self._submit_sp is not None:
                self._submit_sp.stdout.close()  # the base class leaves this to the garbage collector
            if self._pod_submission is not None:
                self._pod_submission.make_pod_owner(has_ended=True)
        make_archive_later(self.launch)
        return driver_id

    def _add_files(self) -> None:
        """Let Spark ship the library, and the request if the driver runs in a cluster."""
        self._py_files = _join_lists(self._job.library, self._py_files)
        if self.launch.in_cluster:
            self._files = _join_lists(self._files, self._job.request)
            self._application_args = [os.path.basename(self._job.request)]
        else:
            self._application_args = [self._job.request]

    def _prepare_script(self, application: str) -> str:
        """Return the script that the driver runs, and set its arguments if it runs in a pod."""
        if self._pod_submission is None:
            return application or self._job.script
        if not application:
            self._application_args = [Path(self._job.script).stem, REQUEST_IN_POD]
            return SCRIPT_IN_POD
        self._py_files = _join_lists(self._job.library, self._py_files)
        self._application_args = [REQUEST_IN_POD]
        return application

    def _delete_driver_pod(self) -> None:
        """Read the output of a pod that succeeded, then delete it. `_poll_k8s_driver_via_api` calls this method.

        A pod stays if its output cannot be read, because it may be the only place that has the result.
        """
        self.read_driver_output()
        if self._pod_submission is not None and self._has_read_driver_output:
            self._pod_submission.delete_pod()

    def _get_spark_binary_path(self) -> list[str]:
        return [find_spark_submit(self._connection["spark_binary"], self.launch.environ)]

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command: list[str] = super()._build_spark_submit_command(application)
        environ = {name: str(value) for name, value in (self._env or {}).items()}
        if (jvm_options := options_of_driver(self.launch, self._conf)) is not None:
            environ[JVM_OPTIONS_VARIABLE] = jvm_options
        if shows_secret("", options := environ.get(JVM_OPTIONS_VARIABLE, "")):
            folder = Path(self._job.settings).parent
            environ[JVM_OPTIONS_VARIABLE] = write_java_options(JVM_OPTIONS_VARIABLE, options, folder)
        self._env = default_spark_home(self.launch) | default_python(self.launch, self._conf) | environ
        if self._is_killed:
            raise AirflowException("The task was stopped before it submitted its job.")
        return command

    def _build_spark_common_args(self) -> list[str]:
        """Return the arguments without secrets.

        The secret settings go into the Secret of the pod, or into a private file after the user's properties.
        """
        arguments, secrets = split_off_secrets(super()._build_spark_common_args())
        if self._pod_submission is None:
            file = read_properties_file(self._properties_file) if secrets else SettingsFile(path=None)
        else:
            # spark-submit writes the settings of the file to the driver's ConfigMap.
            file = read_settings_file(self.launch, self._properties_file)
            secrets = {name: value for name, value in file.secrets.items() if name not in self._conf} | secrets
            if file.secrets:
                self.log.info("spark-submit gets its settings without these secrets: %s", ", ".join(file.secrets))
            file = file.without({*file.secrets, *secrets})
        hide(secrets)
        self._output.hide(secret_values(secrets))
        if self._pod_submission is not None:
            check_repositories(secrets, {**file.settings, **self._conf}, self._packages)
            settings, secrets = self._pod_submission.prepare(secrets, file.settings)
            arguments += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        if not secrets and not file.is_reduced:
            return arguments
        if not self.launch.in_cluster:
            secrets = move_java_options_to_files(secrets, Path(self._job.settings).parent)
        return file.write_copy(arguments, self._job.settings, secrets)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        with self._levelled_log():
            super()._process_spark_submit_log(self._output.to_log(self._pass_to_reports(bounded_lines(itr))))

    def _pass_to_reports(self, lines: Iterator[Any]) -> Iterator[Any]:
        """Yield the lines. `ClusterReports` reads each line first."""
        for line in lines:
            self._reports.read(line)
            yield line

    @contextmanager
    def _levelled_log(self) -> Iterator[None]:
        """In the block, log each line at its level."""
        self._output_log = LevelledLog(cast("logging.Logger", super().log), self._output.omits)
        try:
            yield
        finally:
            self._output_log = None


def _join_lists(*lists: str | None) -> str:
    """Join comma-separated lists to one."""
    return ",".join(text for text in lists if text)
