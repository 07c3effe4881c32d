"""The base class of all operators: it turns rendered parameters into a Spark job, and the job's end into a result.

A subclass declares a request class, a job script and template fields. This class does the work when the task runs.
When the DAG is parsed, it only checks constant parameters.

- The operator submits no job if the table's log shows that an earlier attempt of this task has committed.
- `_running.py` runs the job and decides its result. `_submission.py` chooses how the job is submitted.
- Each run begins with a new state, so one object can run more than once.
- `_commit` adds the run identity, which only operators that commit need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import Asset, AssetAlias

from airflow_provider_deltalite.assets._partitions import add_partitions_to_event, wants_partition_events
from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.links.delta import DeltaCommitLink, SparkApplicationLink, TaskLinks
from airflow_provider_deltalite.operators._lineage import LineageOfRequest
from airflow_provider_deltalite.operators._sources import audit_addresses, reject_parent_segments_of_request
from airflow_provider_deltalite.operators._sql import SqlTemplatedOperator
from airflow_provider_deltalite.parse_time import Constants
from airflow_provider_deltalite.rendered import parse_record
from airflow_provider_deltalite.secrets import HidesSecrets
from deltalite.errors import DeltaLiteError, InvalidRequestError
from deltalite.storage.locations import parse_location
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.failures import FailedTable
    from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
    from airflow_provider_deltalite.job_submitter import JobSubmitter
    from airflow_provider_deltalite.operators._deferral import Deferral
    from airflow_provider_deltalite.operators._spark_submission import SparkSubmission
    from airflow_provider_deltalite.operators._submission import Submission
    from airflow_provider_deltalite.operators._table_log import TableLog
    from deltalite.requests import Approval, AuditQuestion, Request
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


_GENERATION_KEY = "deltalite_generation"
# The operator sets these fields of the request when the task runs.
_FIELDS_WITHOUT_PARAMETER = frozenset({"identity", "approval"})


class DeltaSubmitOperator(HidesSecrets, LineageOfRequest, SqlTemplatedOperator):
    """Run one request as a Spark job.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param shared_folder: True confirms that a local folder is the same on this worker and on all nodes of the cluster,
        such as a mounted network file system. Without it, a job on a cluster rejects local tables. No effect on a local
        master or on other storage.
    :param yarn_track_via_rm_api: As in ``SparkSubmitOperator``. By default, a job in a YARN cluster is tracked if the
        connection's extra names ``yarn_resourcemanager_webapp_address``.
    :param track_driver_via_k8s_api: As in ``SparkSubmitOperator``. By default, a job in a cluster of Kubernetes is
        tracked. With False, `spark-submit` waits on the worker until the job has ended, and a retry cannot join it.
    :param name: The name of the Spark application. By default, it names the DAG, the task and the job, such as
        ``sales.load (deltalite write)``. (templated)
    :param durable: As in ``SparkSubmitOperator``: a retry joins a job that still runs. By default, it is off for a job
        in a YARN cluster that is not tracked, because Airflow refuses this combination.
    :param deferrable: Give the worker's slot back while the driver runs in a YARN cluster, in a pod of Kubernetes or in
        the service of ``submit_with``. The triggerer then waits for the driver. True is an error if the driver runs on
        the worker or is not tracked, and with ``yarn_rm_auth``. By default, Airflow's setting ``[operators]
        default_deferrable`` decides, and has no effect on such a job.
    :param submit_with: What submits the job: ``spark-submit``, or a ``JobSubmitter`` for another service, such as Livy.
        Give an object, or the dotted path of a class whose constructor takes ``conn_id``.
    :param partition_events: Send one event for each touched partition to the assets among ``outlets``, with a partition
        key such as ``day=2026-03-01/country=DE`` (Airflow 3.2 and later). Airflow starts only DAGs with a
        ``PartitionedAssetTimetable`` by such events. If it is not given, the DAG decides: True if its timetable lets
        tasks name the partitions, as ``PartitionedAtRuntime`` does.
    """

    request_class: ClassVar[type[Request]]
    job: ClassVar[str]
    omitted_parameters: ClassVar[frozenset[str]] = frozenset()
    """The parameters of the base classes that this operator does not have."""

    _hook: DeltaSparkSubmitHook | None
    _table_log: TableLog | None = None  # set while the task runs
    submission: Submission | None = None  # set while the task runs
    approval: Approval | None = None  # set while the task runs
    deferral: Deferral | None = None  # set while the task runs
    state_before_job: dict[str, Any]  # what the table's log shows before the job, for `find_result_after_job`
    links: TaskLinks
    nonce_key: str

    operator_extra_links = (SparkApplicationLink(), DeltaCommitLink())
    template_fields: Sequence[str] = (
        *SqlTemplatedOperator.template_fields,
        "table",
        "storage_conn_id",
        "single_writer",
    )

    def __init__(
        self,
        *,
        table: str,
        storage_conn_id: str | None = None,
        single_writer: bool = False,
        shared_folder: bool = False,
        yarn_track_via_rm_api: bool | None = None,
        track_driver_via_k8s_api: bool | None = None,
        durable: bool | None = None,
        deferrable: bool | None = None,
        name: str | None = None,
        submit_with: str | JobSubmitter = "spark-submit",
        partition_events: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            durable=durable,
            yarn_track_via_rm_api=bool(yarn_track_via_rm_api),
            track_driver_via_k8s_api=bool(track_driver_via_k8s_api),
            **kwargs,
        )
        self.table = table
        self.storage_conn_id = storage_conn_id
        self.single_writer = single_writer
        self.shared_folder = shared_folder
        self.deferrable = deferrable
        self.partition_events = partition_events
        self.submit_with = submit_with
        self.durable_parameter = durable
        self.tracking_in_yarn = yarn_track_via_rm_api
        self.tracking_in_kubernetes = track_driver_via_k8s_api
        self.name = name or ""  # the default contains ids that are final only when the task runs

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields, taken from the rendered parameters with the same names."""
        names = [field.name for field in fields(self.request_class) if field.name not in _FIELDS_WITHOUT_PARAMETER]
        return {name: getattr(self, name) for name in names}

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of all tables that the job will open."""
        return [request.table, *audit_addresses(request)]

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  subclasses use the request
        """Whether the table must exist before the job."""
        return True

    def prepare_request(self, request: Request, context: Context) -> Request:
        """Complete the request for this DAG run, before the table's log is read."""
        self.set_tracking_keys(self.store_generation(context))
        return request

    def store_generation(self, context: Context) -> int:
        """Compute the generation, which each clear raises, store it before the attempt can commit, and return it.

        The task state store keeps the generation as long as the DAG run exists. An unavailable state store fails the
        task attempt, because a guessed generation could write the rows twice.
        """
        from airflow_provider_deltalite.idempotency import TaskAttempt, generation_and_state

        state = context.get("task_state_store")
        stored_state = None if state is None else cast("dict[str, Any] | None", state.get(_GENERATION_KEY))
        ti = context["ti"]
        clears = getattr(context.get("dag_run"), "clear_number", None)
        attempt = TaskAttempt(
            try_number=ti.try_number, max_tries=ti.max_tries, retries=self.retries or 0, clears=clears
        )
        current_generation, new_state = generation_and_state(stored_state, attempt)
        if state is not None and new_state != stored_state:
            # Every Airflow that has a task state store also has this constant.
            from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]

            state.set(_GENERATION_KEY, new_state, retention=NEVER_EXPIRE)
        return current_generation

    def set_tracking_keys(self, generation: int) -> None:
        """Set the keys under which Airflow stores the id of the tracked job. The keys contain the generation.

        Airflow keeps the job's id across a clear. With these keys, a retry joins only a job of the same generation.
        """
        self.external_id_key = f"spark_job_id_{generation}"
        self.nonce_key = f"deltalite_nonce_{generation}"
        self._K8S_DRIVER_STATUS_KEY = f"k8s_driver_status_{generation}"

    def find_finished_run(self, store: LogStore, request: Request) -> OperationResult | None:  # noqa: ARG002
        """Return the result of this DAG run that the table's log shows; None if it shows none.

        This class returns None. Operators that commit override the method.
        """
        return None

    def record_state_before_job(self, store: LogStore, request: Request) -> None:
        """Keep in `state_before_job` what the log shows before the job, as JSON values."""

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """Return the result that the log shows after a job; None if it shows none.

        Called if the job failed, or if its output lacks the result or the results of the audits.
        """
        return self.find_finished_run(store, request)

    def ask_person(self, context: Context, question: AuditQuestion) -> NoReturn:  # noqa: ARG002
        """Ask a person about audits. `DeltaCommitOperator` replaces this method.

        Raises:
            AssertionError: Always, because only the job of a commit reports a question.
        """
        raise AssertionError(f"The job of {type(self).__name__} reported a question, but it makes no commit.")

    def log_result(self, result: OperationResult) -> None:
        """Write the result to the task's log."""
        self.log.info("%s: %s", result.operation, result.as_dict())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the base class returns nothing
        """Run the job, unless an earlier attempt of this task has committed. Return the result, the task's XCom."""
        return self._run(context, None)

    def execute_complete(self, context: Context, **deferral: Any) -> dict[str, Any]:
        """Return the result of the job, after the task was deferred.

        `airflow dags test` of Airflow 3.3 loses the values of the deferral. The task then continues as a retry does: it
        returns the commit, or joins the job.
        """
        from airflow_provider_deltalite.operators._deferral import Deferral

        if "driver_id" not in deferral:
            self.log.warning("Airflow has lost the values of this deferral. The task continues as a retry.")
            self.deferrable = False  # Otherwise it could defer again and again.
            return self._run(context, None)
        return self._run(context, Deferral(**deferral))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after a deferral. If Airflow has ended it at its timeout, kill the job first."""
        from airflow_provider_deltalite.operators._deferral import ended_at_timeout, kill_stored_driver

        if ended_at_timeout(next_kwargs):
            self.prepare_request(self._request(), context)  # sets the key of the driver's id
            kill_stored_driver(self, context, conn_id=self._conn_id)
        return super().resume_execution(next_method, next_kwargs, context)

    def _run(self, context: Context, deferral: Deferral | None, approval: Approval | None = None) -> dict[str, Any]:
        from airflow_provider_deltalite.failures import raise_for_airflow
        from airflow_provider_deltalite.operators._running import run_job

        with raise_for_airflow(self.log, self._failed_table):
            self.links = TaskLinks(context["ti"])
            # A submission belongs to one job, so a second run of this object needs a new one.
            self._hook = self._result = self._table_log = self.submission = None
            self.approval = approval if deferral is None else deferral.accepted_values
            self.deferral = deferral
            request = self.prepare_request(self._request(), context)
            log = self._table_log = self.open_log(request)
            if deferral is None:
                result = log.find_earlier_result() or run_job(self, request, context, log, None)
            else:
                log.restore_state(deferral.state_before_job)
                result = run_job(self, request, context, log, deferral)
            self._result = result
        self.links.store_commit_link(request.table, result.version)
        self.log_result(result)
        self._describe_outlet_events(context, result)
        return result.as_dict()

    def open_log(self, request: Request) -> TableLog:
        """Open the log of the table."""
        from airflow_provider_deltalite.operators._table_log import TableLog

        return TableLog(self, request)

    def _describe_outlet_events(self, context: Context, result: OperationResult) -> None:
        """Put the result, and the touched partitions if requested, on the events of the outlets."""
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                event = context["outlet_events"][outlet]
                event.extra = result.as_dict()
                if wants_partition_events(context, partition_events=self.partition_events):
                    add_partitions_to_event(event, result)
            elif isinstance(outlet, AssetAlias):  # Airflow takes no partition keys for an alias
                context["outlet_events"][outlet].add(delta_asset(result.table), extra=result.as_dict())

    def on_kill(self) -> None:
        """Kill the job, if one was submitted. Its commits stay."""
        if self.submission is not None:
            self.submission.kill()

    def default_name(self) -> str:
        """Return the name of the Spark application if the author gives none."""
        return f"{self.dag_id}.{self.task_id} (deltalite {self.job})"

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Render the fields as Airflow does, then set the default name, so that the rendered fields show it."""
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            self.name = self.name or self.default_name()

    def values_with_secrets(self) -> object:
        """Return the values that may contain secrets: the fields that Airflow shows, and all parameters of the hook."""
        return {**self.hook_parameters(), **{name: getattr(self, name, None) for name in self.template_fields}}

    def hook_parameters(self) -> dict[str, Any]:
        """Return the parameters of Airflow's hook. Each one is an attribute of the operator."""
        names = [name for name in signature(SparkSubmitHook.__init__).parameters if name != "self"]
        return {name: getattr(self, name if hasattr(self, name) else f"_{name}") for name in names}

    # Airflow's `execute_resumable` calls the next five methods.
    def submit_job(self, context: Context) -> str | None:
        """Submit a job that a retry can join."""
        return self._current_submission.submit_job(context)

    def get_job_status(self, external_id: Any, context: Context) -> str:
        """Return the status of a job that an earlier task attempt submitted. Join the job if it runs or succeeded."""
        return self._current_submission.get_job_status(external_id, context)

    def is_job_active(self, status: str) -> bool:
        """Whether a job with this status still runs."""
        return self._current_submission.is_job_active(status)

    def is_job_succeeded(self, status: str) -> bool:
        """Whether a job with this status has succeeded."""
        return self._current_submission.is_job_succeeded(status)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for a tracked job, or defer the task until the job has ended."""
        self._current_submission.poll_until_complete(external_id, context)

    @property
    def _current_submission(self) -> Submission:
        return cast("Submission", self.submission)

    def check_constants(self, constants: Constants) -> None:
        """Reject wrong parameters when the DAG is parsed, as far as their values are known."""
        self._reject_job_parameters()
        self.reject_invalid_sql_values()
        never_empty = self.sql_texts | self.plain_texts
        request = constants.check(self.known_parameters(constants), self.request_class, never_empty=never_empty)
        if not constants.is_unknown_at_parse_time(self.table):
            refuse_version(str(self.table))
        if request is not None:
            for address in self.addresses(request):
                if not constants.is_unknown_at_parse_time(address):
                    parse_location(address)
            reject_parent_segments_of_request(request, is_unknown=constants.is_unknown_at_parse_time)

    def known_parameters(self, constants: Constants) -> dict[str, object]:  # noqa: ARG002  subclasses use the constants
        """Return the request's fields, as far as they are known when the DAG is parsed."""
        return self.request_parameters()

    def _reject_job_parameters(self) -> None:
        if self.application_args or self._java_class:
            raise InvalidRequestError(
                "This operator sets application_args and java_class itself.",
                remedy="Leave them out. Put settings for Spark into `conf`.",
            )
        if not isinstance(self.submit_with, str):
            return
        if self.submit_with != "spark-submit" and "." not in self.submit_with:
            raise InvalidRequestError(
                f"submit_with is '{self.submit_with}', which is neither spark-submit nor the dotted path of a class.",
                remedy="Leave it out, or name a class such as 'lake.livy.LivySubmitter'.",
            )

    def _request(self) -> Request:
        """Return the validated request of the rendered parameters."""
        self._reject_job_parameters()
        self.reject_invalid_sql_values()
        request = parse_record("", self.request_parameters(), self.request_class)
        refuse_version(request.table)
        for address in self.addresses(request):
            parse_location(address)
        reject_parent_segments_of_request(request)
        return request

    def _failed_table(self, error: DeltaLiteError | None) -> FailedTable | None:
        """Return the table for the message of a failure, with its newest version if this worker has read its log."""
        from airflow_provider_deltalite.failures import FailedTable

        return FailedTable(table=str(self.table)) if self._table_log is None else self._table_log.failed_table(error)

    def _get_hook(self) -> DeltaSparkSubmitHook:
        """Make the hook. `SparkSubmitOperator.execute` adds lineage to `conf`, then calls this."""
        return cast("SparkSubmission", self.submission).make_hook()
