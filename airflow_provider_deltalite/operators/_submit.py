"""The one worker behind every operator: from rendered parameters to a job, and from its end to a result.

An operator declares a request class, a job script and template fields; everything it does is done here, when the task
runs, and nothing when the DAG is parsed. A run that has committed before is not submitted again; a job is submitted by
`SparkSubmitOperator`, with all that it knows about modes, tracking and killing; and what the job came to is decided in
`outcome`. The operator's own parameters are never changed while it runs, so that one object can run more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, Asset, conf

from airflow_provider_deltalite.failures import airflow_failures
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
from airflow_provider_deltalite.idempotency import generation, run_identity
from airflow_provider_deltalite.outcome import after_failure, after_success
from airflow_provider_deltalite.rendered import fitted, record
from airflow_provider_deltalite.shipping import ShippedJob, shipped
from deltalite.errors import DeltaLiteError, InvalidRequestError, StoragePermissionError, UnsupportedStorageError
from deltalite.requests import OnRerun, RunIdentity
from deltalite.storage.locations import parse_location
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from deltalite.requests import WriteRequest
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore

_GENERATION_KEY = "deltalite_generation"


class DeltaSubmitOperator(SparkSubmitOperator):
    """Run one request as a Spark job, once for each run of the task.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param on_rerun: What the task does when it is cleared: ``skip``, ``write`` or ``replace``. (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param durable: As in ``SparkSubmitOperator``. Where it is not given, a YARN cluster that is not tracked through its
        ResourceManager is submitted to without it, as Airflow would refuse the combination.
    """

    request_class: ClassVar[type[WriteRequest]]
    job: ClassVar[str]

    _hook: DeltaSparkSubmitHook | None
    _store: LogStore | None  # set while the task runs
    _shipped: ShippedJob

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "table",
        "on_rerun",
        "storage_conn_id",
        "single_writer",
    )

    def __init__(
        self,
        *,
        table: str,
        on_rerun: str | None = None,
        storage_conn_id: str | None = None,
        single_writer: bool = False,
        durable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(durable=durable, **kwargs)
        self.table = table
        self.on_rerun = on_rerun
        self.storage_conn_id = storage_conn_id
        self.single_writer = single_writer
        self._durable_given = durable

    def request_parameters(self) -> dict[str, object]:
        """The request's fields, as the rendered parameters of the same names have them."""
        names = [field.name for field in fields(self.request_class) if field.name != "identity"]
        return {name: getattr(self, name) for name in names}

    def addresses(self, request: WriteRequest) -> list[str]:
        """The addresses of all tables that the job will open."""
        return [request.table]

    def default_on_rerun(self, request: WriteRequest) -> OnRerun:  # noqa: ARG002  operators decide by it
        """What a clear does where the author has not said it: nothing twice, unless an operator knows better."""
        return OnRerun.SKIP

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # the base class returns nothing
        """Run the job unless this run has committed already; the result is the task's XCom."""
        with airflow_failures():
            request = self._request()
            self._store = self._opened(request)
            identity = self._identity(request, context)
            result = self._earlier_commit_of(identity) or self._submit(
                replace(request, identity=identity), identity, context
            )
        self._announce(result, context)
        return result.as_dict()

    def on_kill(self) -> None:
        """Kill the job, where one was submitted; what it has committed stays."""
        if self._hook is not None:
            super().on_kill()

    def _request(self) -> WriteRequest:
        """The request that the rendered parameters ask for, and that makes sense in itself."""
        if self.application_args or self._java_class:
            raise InvalidRequestError(
                "application_args and java_class belong to the job, which is this operator's own.",
                remedy="Leave them out; settings for Spark go into `conf`.",
            )
        request = record("", self.request_parameters(), self.request_class)
        refuse_version(request.table)
        for address in self.addresses(request):
            parse_location(address)
        return request

    def _identity(self, request: WriteRequest, context: Context) -> RunIdentity:
        given: OnRerun | None = fitted("on_rerun", self.on_rerun, OnRerun | None)
        on_rerun = given or self.default_on_rerun(request)
        return run_identity(
            context["ti"],
            namespace=conf.get("deltalite", "namespace", fallback="airflow"),
            generation=0 if on_rerun is OnRerun.SKIP else self._generation(context),
            on_rerun=on_rerun,
        )

    def _generation(self, context: Context) -> int:
        """The task's generation, kept before anything can be committed in it, for as long as the DAG run is.

        A state store that does not answer fails the try: a generation that is guessed could write twice.
        """
        state = context.get("task_state_store")
        kept = None if state is None else cast("dict[str, int] | None", state.get(_GENERATION_KEY))
        found, to_keep = generation(kept, max_tries=context["ti"].max_tries, retries=self.retries or 0)
        if state is not None and to_keep != kept:
            from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # as old as the state store

            state.set(_GENERATION_KEY, to_keep, retention=NEVER_EXPIRE)
        return found

    def _opened(self, request: WriteRequest) -> LogStore | None:
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

    def _earlier_commit_of(self, identity: RunIdentity) -> OperationResult | None:
        """The commit of an earlier try. Without a connection of its own, the storage may be closed to this worker."""
        try:
            return self._commit_of(identity)
        except StoragePermissionError as error:
            if self.storage_conn_id is not None or self._store is None or parse_location(self._store.root).is_local:
                raise
            self.log.warning("The table's log is not looked at from this worker, only by the job: %s", error)
            self._store = None
            return None

    def _commit_of(self, identity: RunIdentity) -> OperationResult | None:
        """The commit that this run has made, where there is one that can be seen from here."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        if self._store is None:
            return None
        return watch.find_run(self._store, identity.app_id, identity.txn_version)

    def _submit(self, request: WriteRequest, identity: RunIdentity, context: Context) -> OperationResult:
        self._begin_job_of(identity)
        with shipped(self.job, request.to_json()) as self._shipped:
            try:
                super().execute(context)
            except DeltaLiteError:
                raise
            except Exception as raised:
                if self._hook is None or self._hook.exit_code is None:
                    raise  # it was never submitted
                return after_failure(self._hook, raised, lambda: self._commit_of(identity))
        hook = cast("DeltaSparkSubmitHook", self._hook)  # the base class has asked `_get_hook` for it
        result = after_success(hook, lambda: self._commit_of(identity))
        if result is None:
            seen = "cannot be read from this worker" if self._store is None else "has no commit of this run"
            raise AirflowException(
                f"The job ended well, but said no result, and {request.table} {seen}. "
                "Look into the driver's log; another try writes only if this one has not."
            )
        return result

    def _begin_job_of(self, identity: RunIdentity) -> None:
        """Keep apart what an earlier run of this object, or an earlier generation of the task, has left behind.

        A hook knows one job. A cleared task that writes again must not join the tracked job of its earlier generation.
        """
        self._hook = None
        self.external_id_key = f"spark_job_id_{identity.txn_version}"
        self._K8S_DRIVER_STATUS_KEY = f"k8s_driver_status_{identity.txn_version}"

    def _get_hook(self) -> DeltaSparkSubmitHook:
        """The hook for the shipped job; every parameter of Airflow's own is an attribute of the operator.

        `SparkSubmitOperator.execute` calls this after it has added lineage to `conf`.
        """
        parameters = [name for name in signature(SparkSubmitHook.__init__).parameters if name != "self"]
        given = {name: getattr(self, name if hasattr(self, name) else f"_{name}") for name in parameters}
        hook = DeltaSparkSubmitHook(job=self._shipped, **given)
        if hook._is_yarn_cluster_mode and not self._yarn_track_via_rm_api and self._durable_given is None:  # noqa: SLF001
            self.durable = False
        return hook

    def _announce(self, result: OperationResult, context: Context) -> None:
        """Say the result once, and give it to the events of the outlet assets."""
        if result.skipped:
            self.log.warning(
                "SKIPPED: this run has already committed version %s of %s, and nothing was written now.",
                result.version,
                result.table,
            )
        elif result.committed:
            self.log.info("Committed version %s of %s: %s", result.version, result.table, dict(result.metrics))
        else:
            self.log.info("Nothing was committed to %s.", result.table)
        for asset in self.outlets:
            if isinstance(asset, Asset):
                context["outlet_events"][asset].extra = result.as_dict()
