"""The one worker behind every operator: from rendered parameters to a job, and from its end to a result.

An operator declares a request class, a job script and template fields; everything it does is done here, when the task
runs, and nothing when the DAG is parsed. What has been done before is not submitted again; a job is submitted by
`SparkSubmitOperator`, with all that it knows about modes, tracking and killing; and what the job came to is decided in
`outcome`. The operator's own parameters are never changed while it runs, so that one object can run more than once.
What only operators that commit have, the identity of their run, is in `_commit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException, Asset, AssetAlias

from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.failures import airflow_failures
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
from airflow_provider_deltalite.idempotency import Try, generation
from airflow_provider_deltalite.links.delta import DeltaCommitLink, SparkApplicationLink, TaskLinks
from airflow_provider_deltalite.operators._lineage import LineageOfRequest
from airflow_provider_deltalite.operators._sources import places
from airflow_provider_deltalite.operators._sql import SqlTemplatedOperator
from airflow_provider_deltalite.outcome import after_failure, after_success
from airflow_provider_deltalite.rendered import record
from airflow_provider_deltalite.secrets import hide, secret_values
from airflow_provider_deltalite.shipping import ShippedJob, shipped
from deltalite.errors import DeltaLiteError, InvalidRequestError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.locations import parse_location, refuse_climbing
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from deltalite.requests import Request
    from deltalite.results import JobStarted, OperationResult
    from deltalite.storage.log_store import LogStore


_GENERATION_KEY = "deltalite_generation"


class DeltaSubmitOperator(LineageOfRequest, SqlTemplatedOperator):
    """Run one request as a Spark job.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param yarn_track_via_rm_api: As in ``SparkSubmitOperator``. Where it is not given, a job in a YARN cluster is
        tracked if the connection's extra names ``yarn_resourcemanager_webapp_address``.
    :param durable: As in ``SparkSubmitOperator``: a retry joins a job that still runs. Where it is not given, a job in
        a YARN cluster that is not tracked is submitted without it, as Airflow would refuse the combination.
    """

    request_class: ClassVar[type[Request]]
    job: ClassVar[str]

    _hook: DeltaSparkSubmitHook | None
    _store: LogStore | None  # set while the task runs
    _shipped: ShippedJob
    _addresses: Sequence[str] = ()
    _links: TaskLinks

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
        yarn_track_via_rm_api: bool | None = None,
        durable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(durable=durable, yarn_track_via_rm_api=bool(yarn_track_via_rm_api), **kwargs)
        self.table = table
        self.storage_conn_id = storage_conn_id
        self.single_writer = single_writer
        self._durable_given = durable
        self._tracking_given = yarn_track_via_rm_api
        self._has_name = "name" in kwargs

    def request_parameters(self) -> dict[str, object]:
        """The request's fields, as the rendered parameters of the same names have them."""
        names = [field.name for field in fields(self.request_class) if field.name != "identity"]
        return {name: getattr(self, name) for name in names}

    def addresses(self, request: Request) -> list[str]:
        """The addresses of all tables that the job will open."""
        return [request.table]

    def begin(self, request: Request, context: Context) -> Request:
        """The request as this run asks it, decided before the log is looked at."""
        self.name_tracked_job(self.generation(context))
        return request

    def generation(self, context: Context) -> int:
        """The task's generation, kept before anything can be committed in it, for as long as the DAG run is.

        A state store that does not answer fails the try: a generation that is guessed could write twice.
        """
        state = context.get("task_state_store")
        kept = None if state is None else cast("dict[str, Any] | None", state.get(_GENERATION_KEY))
        ti = context["ti"]
        clears = getattr(context.get("dag_run"), "clear_number", None)
        now = Try(try_number=ti.try_number, max_tries=ti.max_tries, retries=self.retries or 0, clears=clears)
        found, to_keep = generation(kept, now)
        if state is not None and to_keep != kept:
            from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # as old as the state store

            state.set(_GENERATION_KEY, to_keep, retention=NEVER_EXPIRE)
        return found

    def name_tracked_job(self, generation: int) -> None:
        """Have a retry find the tracked job of its own generation only: Airflow keeps its id across a clear."""
        self.external_id_key = f"spark_job_id_{generation}"
        self._K8S_DRIVER_STATUS_KEY = f"k8s_driver_status_{generation}"

    def done(self, store: LogStore, request: Request) -> OperationResult | None:  # noqa: ARG002  operators know
        """What the table's log says that this run has done, None where it says nothing."""
        return None

    def look(self, store: LogStore, request: Request) -> None:
        """Remember what the log shows before the job."""

    def landed(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """What the log says after a job whose result did not come back, or that failed."""
        return self.done(store, request)

    def announced(self, result: OperationResult) -> None:
        """Say the result in the task's log."""
        self.log.info("%s: %s", result.operation, result.as_dict())

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the base class returns nothing
        """Run the job unless what it would do is done already; the result is the task's XCom."""
        with airflow_failures():
            self._links = TaskLinks(context["ti"])
            self._hook = self._result = None  # an earlier run of this object has its own: a hook knows one job
            request = self.begin(self._request(), context)
            self._store = self._opened(request)
            result = self._result = self._done_before(request) or self._submit(request, context)
        self._links.commit(request.table, result.version)
        self.announced(result)
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = result.as_dict()
            elif isinstance(outlet, AssetAlias):
                context["outlet_events"][outlet].add(delta_asset(result.table), extra=result.as_dict())
        return result.as_dict()

    def on_kill(self) -> None:
        """Kill the job, where one was submitted; what it has committed stays.

        Of a job in YARN that is not tracked the base class would ask a ResourceManager that nobody has named, and let
        it and spark-submit go on.
        """
        if self._hook is None:
            return
        if self._hook.cannot_be_joined:
            self._hook.on_kill()
        else:
            super().on_kill()

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render the parameters, and have Airflow hide the secrets that came out before it shows and stores them."""
        super().render_template_fields(context, jinja_env)
        hide(self._visible())

    def _visible(self) -> dict[str, object]:
        """The parameters that Airflow shows."""
        return {name: getattr(self, name, None) for name in self.template_fields}

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for a tracked job, whose id the hook has to know for a kill where an earlier try has submitted it."""
        cast("DeltaSparkSubmitHook", self._hook).join(external_id)
        super().poll_until_complete(external_id, context)

    def _request(self) -> Request:
        """The request that the rendered parameters ask for, and that makes sense in itself."""
        if self.application_args or self._java_class:
            raise InvalidRequestError(
                "application_args and java_class belong to the job, which is this operator's own.",
                remedy="Leave them out; settings for Spark go into `conf`.",
            )
        self.refuse_what_is_no_sql()
        request = record("", self.request_parameters(), self.request_class)
        refuse_version(request.table)
        for address in self.addresses(request):
            parse_location(address)
        for address in places(request):
            refuse_climbing(address)
        return request

    def _opened(self, request: Request) -> LogStore | None:
        """The table's log as this worker sees it; None where only Spark reaches it, which the author has not denied.

        The job looks for itself whether its run has committed; what is saved here is a submission.
        """
        try:
            return DeltaHook(request.table, self.storage_conn_id).get_conn()
        except UnsupportedStorageError as error:
            if self.storage_conn_id is not None or parse_location(request.table).is_local:
                raise
            self.log.warning("The table's log is not looked at from this worker, only by the job: %s", error)
            return None

    def _done_before(self, request: Request) -> OperationResult | None:
        """What an earlier try did. Without a connection of its own, the storage may be closed to this worker."""
        store = self._store
        if store is None:
            return None
        try:
            self.look(store, request)
            return self.done(store, request)
        except StoragePermissionError as error:
            may_be_closed = self.storage_conn_id is None and not parse_location(store.root).is_local
            if not may_be_closed:
                raise
            self.log.warning("The table's log is not looked at from this worker, only by the job: %s", error)
            self._store = None
            return None

    def _landed(self, request: Request, *, failed: bool) -> OperationResult | None:
        return None if self._store is None else self.landed(self._store, request, failed=failed)

    def _submit(self, request: Request, context: Context) -> OperationResult:
        self._addresses = self.addresses(request)
        with shipped(self.job, request.to_json()) as self._shipped:
            try:
                super().execute(context)
            except DeltaLiteError:
                raise
            except Exception as raised:
                if self._hook is None or not self._hook.was_submitted:
                    raise
                if self._hook.traceback:
                    self.log.error(  # noqa: TRY400  the traceback that matters is the job's
                        "The job failed:\n%s", self._hook.traceback
                    )
                return after_failure(self._hook, raised, lambda: self._landed(request, failed=True))
        hook = cast("DeltaSparkSubmitHook", self._hook)  # the base class has asked `_get_hook` for it
        result = after_success(hook, lambda: self._landed(request, failed=False))
        if result is None:
            seen = "cannot be read from this worker" if self._store is None else "does not show what this run did"
            raise AirflowException(
                f"The job ended well, but said no result, and the log of {request.table} {seen}. "
                "Look into the driver's log; another try does only what this one has not done."
            )
        return result

    def _get_hook(self) -> DeltaSparkSubmitHook:
        """The hook for the shipped job; every parameter of Airflow's own is an attribute of the operator.

        `SparkSubmitOperator.execute` calls this after it has added lineage to `conf`.
        """
        parameters = [name for name in signature(SparkSubmitHook.__init__).parameters if name != "self"]
        given = {name: getattr(self, name if hasattr(self, name) else f"_{name}") for name in parameters}
        given |= {"conf": dict(self.conf or {}), "yarn_track_via_rm_api": self._tracking_given}
        given |= {"on_start": self._started, "hidden": frozenset(secret_values(self._visible()))}
        if not self._has_name:
            given["name"] = f"{self.dag_id}.{self.task_id} (deltalite {self.job})"
        hook = DeltaSparkSubmitHook(job=self._shipped, **given)
        hook.warn_of_missing_connectors(self._addresses)
        if hook.cannot_be_joined:
            self._submit_unjoined()
        return hook

    def _started(self, job: JobStarted) -> None:
        hook = cast("DeltaSparkSubmitHook", self._hook)
        self._links.application(job, history=hook.history_server, resource_manager=hook.resource_manager)

    def _submit_unjoined(self) -> None:
        """Submit to a YARN cluster without tracking, unless the author has asked for what needs it."""
        needed = "the extra 'yarn_resourcemanager_webapp_address' of the connection (such as http://rm:8088)"
        if self._durable_given:
            raise InvalidRequestError(
                "durable=True needs to ask YARN's ResourceManager for the job, and it is not known or not to be asked.",
                remedy=f"Set {needed}, and leave yarn_track_via_rm_api out; or leave durable out.",
            )
        if self.durable:
            self.log.info(
                "A retry will submit anew, also where this job still runs. To have it join the job, set %s.", needed
            )
        self.durable = False
