"""The one worker behind every operator: from rendered parameters to a job, and from its end to a result.

An operator declares a request class, a job script and template fields; everything it does is done here, when the task
runs, and nothing when the DAG is parsed. What has been done before is not submitted again; a job is submitted by
`SparkSubmitOperator`, with all that it knows about modes, tracking and killing; and what the job came to is decided in
`outcome`. The operator's own parameters are never changed while it runs, so that one object can run more than once.
What only operators that commit have, the identity of their run, is in `_commit`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException, Asset, AssetAlias

from airflow_provider_deltalite.assets._partitions import name_partitions, wants_partition_events
from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.idempotency import Try, generation
from airflow_provider_deltalite.links.delta import DeltaCommitLink, SparkApplicationLink, TaskLinks
from airflow_provider_deltalite.operators._lineage import LineageOfRequest
from airflow_provider_deltalite.operators._sources import refuse_climbing_addresses
from airflow_provider_deltalite.operators._sql import SqlTemplatedOperator
from airflow_provider_deltalite.parse_time import Constants
from airflow_provider_deltalite.rendered import record
from airflow_provider_deltalite.secrets import HidesSecrets
from deltalite.errors import (
    DeltaLiteError,
    InvalidRequestError,
    StorageError,
    StoragePermissionError,
    TableNotFoundError,
    UnsupportedStorageError,
)
from deltalite.storage.locations import parse_location
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.failures import Where
    from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
    from airflow_provider_deltalite.shipping import ShippedJob
    from deltalite.requests import Request
    from deltalite.results import JobStarted, OperationResult
    from deltalite.storage.log_store import LogStore


_GENERATION_KEY = "deltalite_generation"


class DeltaSubmitOperator(HidesSecrets, LineageOfRequest, SqlTemplatedOperator):
    """Run one request as a Spark job.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param yarn_track_via_rm_api: As in ``SparkSubmitOperator``. Where it is not given, a job in a YARN cluster is
        tracked if the connection's extra names ``yarn_resourcemanager_webapp_address``.
    :param name: The name of the Spark application. Where it is not given, it is made of DAG, task and job, such as
        ``sales.load (deltalite write)``. (templated)
    :param durable: As in ``SparkSubmitOperator``: a retry joins a job that still runs. Where it is not given, a job in
        a YARN cluster that is not tracked is submitted without it, as Airflow would refuse the combination.
    :param partition_events: Send one event for each touched partition to the assets among ``outlets``, with a partition
        key such as ``day=2026-03-01/country=DE`` (Airflow 3.2 and later). Airflow starts only DAGs with a
        ``PartitionedAssetTimetable`` by such events. If it is not given, the DAG decides: True if its timetable lets
        tasks name the partitions, as ``PartitionedAtRuntime`` does.
    """

    request_class: ClassVar[type[Request]]
    job: ClassVar[str]

    _hook: DeltaSparkSubmitHook | None
    _store: LogStore | None = None  # set while the task runs
    _shipped: ShippedJob
    _addresses: Sequence[str] = ()
    _missing: str | None = None  # the address of a table that the job needs and that does not exist
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
        name: str | None = None,
        partition_events: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(durable=durable, yarn_track_via_rm_api=bool(yarn_track_via_rm_api), **kwargs)
        self.table = table
        self.storage_conn_id = storage_conn_id
        self.single_writer = single_writer
        self.partition_events = partition_events
        self._durable_given = durable
        self._tracking_given = yarn_track_via_rm_api
        self.name = name or ""  # the default is made of ids that are final only when the task runs

    def request_parameters(self) -> dict[str, object]:
        """The request's fields, as the rendered parameters of the same names have them."""
        names = [field.name for field in fields(self.request_class) if field.name != "identity"]
        return {name: getattr(self, name) for name in names}

    def addresses(self, request: Request) -> list[str]:
        """The addresses of all tables that the job will open."""
        return [request.table]

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  operators know
        """Whether the table must exist before the job."""
        return True

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
        from airflow_provider_deltalite.failures import airflow_failures

        with airflow_failures(self.log, self._where):
            self._links = TaskLinks(context["ti"])
            # An earlier run of this object has its own: a hook knows one job.
            self._hook = self._result = self._store = self._missing = None
            request = self.begin(self._request(), context)
            self._store = self._opened(request)
            result = self._result = self._done_before(request) or self._submit(request, context)
        self._links.commit(request.table, result.version)
        self.announced(result)
        self._describe_outlet_events(context, result)
        return result.as_dict()

    def _describe_outlet_events(self, context: Context, result: OperationResult) -> None:
        """Put the result, and the touched partitions if they are asked for, on the events of the outlets."""
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                event = context["outlet_events"][outlet]
                event.extra = result.as_dict()
                if wants_partition_events(context, partition_events=self.partition_events):
                    name_partitions(event, result)
            elif isinstance(outlet, AssetAlias):  # Airflow takes no partition keys for an alias
                context["outlet_events"][outlet].add(delta_asset(result.table), extra=result.as_dict())

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

    def _default_name(self) -> str:
        return f"{self.dag_id}.{self.task_id} (deltalite {self.job})"

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Airflow's own. The rendered fields show the name that the Spark application has."""
        super()._do_render_template_fields(parent, template_fields, context, jinja_env, seen_oids)
        if parent is self:
            self.name = self.name or self._default_name()

    def secrets_shown(self) -> object:
        """The values that may hold secrets: the fields that Airflow shows, and everything else that the hook gets."""
        return {**self._hook_parameters(), **{name: getattr(self, name, None) for name in self.template_fields}}

    def _hook_parameters(self) -> dict[str, Any]:
        """The parameters of Airflow's hook; every one is an attribute of the operator."""
        names = [name for name in signature(SparkSubmitHook.__init__).parameters if name != "self"]
        return {name: getattr(self, name if hasattr(self, name) else f"_{name}") for name in names}

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for a tracked job, whose id the hook has to know for a kill where an earlier try has submitted it."""
        cast("DeltaSparkSubmitHook", self._hook).join(external_id)
        super().poll_until_complete(external_id, context)

    def check_constants(self, constants: Constants) -> None:
        """Refuse parameters that cannot be right whatever the templates give: called when the DAG is parsed."""
        self._refuse_parameters_of_jobs()
        self.refuse_what_is_no_sql()
        never_empty = self.sql_texts | self.plain_texts
        request = constants.check(self.known_parameters(constants), self.request_class, never_empty=never_empty)
        if not constants.waits(self.table):
            refuse_version(str(self.table))
        if request is not None:
            for address in (one for one in self.addresses(request) if not constants.waits(one)):
                parse_location(address)
            refuse_climbing_addresses(request, waits=constants.waits)

    def known_parameters(self, constants: Constants) -> dict[str, object]:  # noqa: ARG002  operators that commit use it
        """The request's fields as far as they are known when the DAG is parsed."""
        return self.request_parameters()

    def _refuse_parameters_of_jobs(self) -> None:
        if self.application_args or self._java_class:
            raise InvalidRequestError(
                "application_args and java_class belong to the job, which is this operator's own.",
                remedy="Leave them out; settings for Spark go into `conf`.",
            )

    def _request(self) -> Request:
        """The request that the rendered parameters ask for, and that makes sense in itself."""
        self._refuse_parameters_of_jobs()
        self.refuse_what_is_no_sql()
        request = record("", self.request_parameters(), self.request_class)
        refuse_version(request.table)
        for address in self.addresses(request):
            parse_location(address)
        refuse_climbing_addresses(request)
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
            done = self.done(store, request)
            if done is None and self.needs_table(request) and _is_missing(store):
                self._missing = request.table
        except StoragePermissionError as error:
            may_be_closed = self.storage_conn_id is None and not parse_location(store.root).is_local
            if not may_be_closed:
                raise
            self.log.warning("The table's log is not looked at from this worker, only by the job: %s", error)
            self._store = None
            return None
        return done

    def _where(self, error: DeltaLiteError | None) -> Where:
        """The table and its newest version, for the message of a failure; storage that failed is not asked again."""
        from airflow_provider_deltalite.failures import Where

        version = None
        if self._store is not None and not isinstance(error, StorageError):
            from deltalite import watch  # loads pyarrow, which parsing a DAG must not

            with suppress(DeltaLiteError):
                version = watch.latest_version(self._store)
        return Where(table=str(self.table), version=version)

    def _landed(self, request: Request, *, failed: bool) -> OperationResult | None:
        return None if self._store is None else self.landed(self._store, request, failed=failed)

    def _submit(self, request: Request, context: Context) -> OperationResult:
        from airflow_provider_deltalite.failures import log_folded
        from airflow_provider_deltalite.outcome import after_failure, after_success
        from airflow_provider_deltalite.shipping import shipped

        self._addresses = self.addresses(request)
        with shipped(self.job, lambda nonce: request.to_json(nonce=nonce)) as self._shipped:
            try:
                super().execute(context)
            except DeltaLiteError:
                raise
            except Exception as raised:
                if self._hook is None or not self._hook.was_submitted:
                    raise
                if self._hook.left_out:
                    log_folded(self.log, "Spark's lines below the log level", self._hook.left_out, level=logging.INFO)
                if self._hook.traceback:
                    log_folded(self.log, "Traceback of the job", self._hook.traceback)
                return after_failure(
                    self._hook, raised, lambda: self._landed(request, failed=True), lambda: self._where(None)
                )
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
        """The hook for the shipped job.

        `SparkSubmitOperator.execute` calls this after it has added lineage to `conf`.
        """
        from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
        from deltalite.redaction import secret_values

        given = self._hook_parameters()
        given |= {"conf": dict(self.conf or {}), "yarn_track_via_rm_api": self._tracking_given}
        given |= {"on_start": self._started, "hidden": frozenset(secret_values(self.secrets_shown()))}
        given["name"] = self.name or self._default_name()
        hook = DeltaSparkSubmitHook(job=self._shipped, **given)
        hook.warn_of_mixed_pyspark()
        self._refuse_missing_table(in_cluster=hook.launch.in_cluster)
        hook.warn_of_missing_connectors(self._addresses)
        if hook.cannot_be_joined:
            self._submit_unjoined()
        return hook

    def _refuse_missing_table(self, *, in_cluster: bool) -> None:
        """Refuse a table that does not exist, unless it is local and the driver runs on another machine."""
        if self._missing is not None and not (in_cluster and parse_location(self._missing).is_local):
            raise TableNotFoundError(
                f"There is no Delta table at {self._missing}, so no job was submitted.",
                remedy="Check the address, or write the table first.",
            )

    def _started(self, job: JobStarted) -> None:
        hook = cast("DeltaSparkSubmitHook", self._hook)
        self._links.application(
            job, history=hook.history_server, resource_manager=hook.resource_manager, hosts=hook.ui_hosts
        )

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


def _is_missing(store: LogStore) -> bool:
    """Whether there is no table."""
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    return watch.latest_version(store) < 0
