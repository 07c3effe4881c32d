"""The sensor that waits for a new version of a table.

The sensor polls in the same way (`waiting`) and returns the same dictionary in each mode. A worker runs the first poll.
If this poll finds nothing, a deferrable sensor defers from inside `poke`, so that the base class handles `soft_fail`
and similar parameters in both modes. With `start_from_trigger` the triggerer runs the first poll too.

If the sensor loses its log position, it only reads commits again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)
from airflow.triggers.base import BaseTrigger, StartTriggerArgs

from airflow_provider_deltalite.failures import FailedTable, error_class_named, failure, raise_for_airflow
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.parse_time import CheckedWhenParsed, Constants
from airflow_provider_deltalite.quoting import QuotingTemplates
from airflow_provider_deltalite.rendered import convert_value
from airflow_provider_deltalite.secrets import HidesSecrets
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from airflow_provider_deltalite.wait_status import WaitStatus
from airflow_provider_deltalite.waiting import VersionWait, WaitParameters, convert_after_version, poll_table
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.storage.locations import parse_location, reject_parent_segments

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.sensors._stored_position import StoredPosition

_BASELINE_KEY = "deltalite_after_version"
_PROGRESS_KEY = "deltalite_place"
# Since version 3.3, Airflow renders the templates in a trigger's arguments.
_RENDERS_TRIGGERS = hasattr(BaseTrigger, "render_template_fields")


class DeltaVersionSensor(HidesSecrets, QuotingTemplates, BaseSensorOperator, metaclass=CheckedWhenParsed):
    """Wait for a commit to a Delta table, and return a description of it.

    A commit matches if it is after ``after_version`` and satisfies every given condition. The result is ``{table,
    from_version, version, after_version, reset, operation, timestamp}``. It describes the first commit that matches.
    ``from_version`` is the first version after ``after_version``, or 0 if ``reset`` is true. The sensor waits for a
    table that does not exist yet. If storage does not answer, the sensor polls again, until ``timeout``. If the table
    is dropped and created again, the wait continues at the new table's first version, and ``reset`` is true. If log
    cleanup deletes commits before a poll, the sensor skips them and logs a warning.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param after_version: Only commits after this version match; -1 for any. By default, it is the table's version at
        the first poll of this task in this DAG run. It stays the same through reschedules, deferrals, retries and
        clears. Under ``[state_store] clear_on_success``, a clear after a success starts at the current version. Before
        Airflow 3.3, it is the version at the start of the DAG run. A clear in an ended DAG run makes Airflow start that
        run again, so the version is then a later one. (templated)
    :param data_change_only: Ignore commits that add or remove no rows, such as OPTIMIZE, a change of properties, or a
        write without rows. By default they are ignored unless ``operations``, ``app_id`` or ``made_by`` is given.
    :param operations: Only commits of these operations match, as the table's history names them (``WRITE``, ``MERGE``,
        ...). (templated)
    :param partition: Only commits that add or remove a file with these partition values match. A removed file is
        considered only if its writer has recorded the values. Column names are compared without regard to case. Values
        are texts as Delta serializes them, None for null. (templated)
    :param app_id: Only commits with this transaction identifier match. (templated)
    :param made_by: Only commits of an Airflow task with these properties match. It is a mapping with one or more of
        ``dag_id``, ``task_id``, ``run_id``, ``map_index``, ``idempotency_key``, ``logical_date``,
        ``data_interval_start`` and ``data_interval_end``. Times are ISO 8601. A time without a time zone is
        read as UTC. A data interval finds the commit of another DAG whether that DAG was scheduled, backfilled or
        triggered. (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage. (templated)
    :param deferrable: Wait in the triggerer, without a worker slot.
    :param start_from_trigger: Start in the triggerer too, so that a worker runs only after the wait (Airflow 3.3 and
        later). It needs ``deferrable=True``, ``after_version``, and constants or templates that use only Airflow's own
        variables and macros. An older Airflow, and a mapped sensor, start in a worker.
    :param kwargs: Parameters of ``BaseSensorOperator``.
    """

    template_fields: Sequence[str] = (
        "table",
        "after_version",
        "operations",
        "partition",
        "app_id",
        "made_by",
        "storage_conn_id",
    )

    def __init__(
        self,
        *,
        table: str,
        after_version: int | str | None = None,
        data_change_only: bool | None = None,
        operations: Sequence[str] | None = None,
        partition: Mapping[str, str | None] | None = None,
        app_id: str | None = None,
        made_by: Mapping[str, Any] | None = None,
        storage_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        start_from_trigger: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.after_version = after_version
        self.data_change_only = data_change_only
        self.operations = operations
        self.partition = partition
        self.app_id = app_id
        self.made_by = made_by
        self.storage_conn_id = storage_conn_id
        self.deferrable = deferrable
        self._requests_trigger_start = start_from_trigger
        if start_from_trigger and _RENDERS_TRIGGERS and self._trigger_start_error() is None:
            # Set on the instance: Airflow takes a mapped sensor's arguments from the class, where they would be wrong.
            self.start_from_trigger = True
            self.start_trigger_args = self._start_trigger_args()
        self._last_request_and_position: tuple[dict[str, Any], LogPosition] | None = None
        self._result: Mapping[str, Any] | None = None
        self._wait_and_status: tuple[VersionWait, WaitStatus] | None = None

    def execute(self, context: Context) -> Any:
        """Wait, or defer after the first poll. Add the status of the wait to the message of a timeout."""
        try:
            return super().execute(context)
        except (AirflowSensorTimeout, AirflowSkipException) as error:
            if error.__cause__ is not None:  # `soft_fail` has turned another error into a skip
                raise
            raise type(error)(f"{error} {self._status_text(context)}") from error

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after a deferral; add the status of the wait to the message of a timeout."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(f"{error} {self._status_text(context)}") from error
        except AirflowSkipException as error:
            if not isinstance(error.__cause__, AirflowSensorTimeout):
                raise
            raise AirflowSkipException(f"{error} {error.__cause__} {self._status_text(context)}") from error.__cause__

    def check_constants(self, constants: Constants) -> None:
        """Reject wrong parameters when the DAG is parsed, as far as their values are known."""
        if not constants.is_unknown_at_parse_time(self.table):
            table = convert_value("table", self.table, str)
            parse_location(table)
            reject_parent_segments(table)
        constants.check(self._parameters().condition_values(), CommitCondition)
        constants.check_value("after_version", self.after_version, int | None)
        if self._requests_trigger_start:
            error = self._trigger_start_error()
            if error is not None:
                raise error

    def _trigger_start_error(self) -> InvalidRequestError | None:
        """Return the error that says why the sensor cannot start in the triggerer; None if it can."""
        if not self.deferrable:
            return InvalidRequestError(
                "start_from_trigger needs deferrable=True.",
                remedy="Set deferrable=True, or leave start_from_trigger out.",
            )
        if self.after_version is None:
            return InvalidRequestError(
                "start_from_trigger needs after_version, because only a worker can store a starting version.",
                remedy="Give a version, or -1 for any; or leave start_from_trigger out.",
            )
        for name in self.template_fields:
            if not _is_json(getattr(self, name)):
                return InvalidRequestError(
                    f"start_from_trigger takes constants and templates, and {name} is neither.",
                    remedy="Write a template, such as one with ti.xcom_pull; or leave start_from_trigger out.",
                )
        return None

    def _start_trigger_args(self) -> StartTriggerArgs:
        return StartTriggerArgs(
            trigger_cls="airflow_provider_deltalite.triggers.delta.DeltaVersionStartTrigger",
            next_method="execute_complete",
            trigger_kwargs={
                **{name: getattr(self, name) for name in self.template_fields},
                "data_change_only": self.data_change_only,
                "poke_interval": self.poke_interval,
            },
            timeout=timedelta(seconds=self.timeout),
        )

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once; a deferrable sensor defers if the poll finds nothing.

        If storage does not answer before the starting version is known, the sensor does not defer, and polls again.
        """
        with raise_for_airflow(self.log, lambda _: FailedTable(table=str(self.table))):
            try:
                wait, position, hook = self._prepare_wait(context)
            except StorageError as error:
                if not error.retryable:
                    raise
                self.log.warning("Could not read the starting version; retrying at the next poll: %s", error)
                return PokeReturnValue(is_done=False)
            poll = poll_table(wait, position, hook)
        self._last_request_and_position = (wait.as_dict(), poll.position)
        if poll.xcom is None:
            self._status_of(wait).record_poll(hook, answered=poll.answered)
            if self.deferrable:
                self._defer_to_trigger(wait, poll.position)
            if poll.position != position and self.reschedule:
                self._stored_position(context, _PROGRESS_KEY).set(wait.as_dict(), poll.position)
        else:
            self._record_result(poll.xcom)
        return PokeReturnValue(is_done=poll.xcom is not None, xcom_value=poll.xcom)

    def execute_complete(
        self, context: Context, event: Mapping[str, Any] | None = None, request: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the result that the trigger sent, or raise its error.

        Airflow renders the templates again before it resumes a task. If the new request differs from that of the
        deferral, the sensor ignores the event and starts the wait again.

        :param context: The task's context.
        :param event: The payload of the trigger's event.
        :param request: The request of the deferral; the event holds it if the sensor started in the triggerer.
        """
        with raise_for_airflow(self.log, lambda _: FailedTable(table=str(self.table))):
            rendered_request = self._parameters().request()
        if request is None and event is not None:
            request = event.get("request")
        if request is not None and dict(request) != rendered_request:
            self.log.warning(
                "Starting the wait again for %s: the templates changed while the sensor was deferred for %s.",
                rendered_request["table"],
                request.get("table"),
            )
            result: dict[str, Any] = self.execute(context)
            return result
        match event:
            case {"status": "success", "result": dict() as event_result}:
                self._record_result(event_result)
                return event_result
            case {"status": "error", "kind": "AirflowNotFoundException", "message": str() as message}:
                raise AirflowNotFoundException(message)  # the first poll in a worker raises the same error
            case {"status": "error", "kind": str() as kind, "message": str() as message}:
                cls = error_class_named(kind)
                raise AirflowException(f"{kind}: {message}") if cls is None else failure(cls, message)
            case _:
                raise AirflowException(
                    f"Could not finish the wait for {self.table}: the trigger sent an unknown event, {event!r}. Check "
                    "that the workers and the triggerer run the same release of airflow-provider-deltalite."
                )

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the table as an input."""
        return self._lineage(None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  OpenLineage passes it
        """Return the table as an input, with the version of the commit if there is one."""
        return self._lineage(self._result)

    def _lineage(self, result: Mapping[str, Any] | None) -> Any:
        from airflow_provider_deltalite.lineage.edges import Edges, table_edge
        from airflow_provider_deltalite.lineage.facets import operator_lineage

        edge = table_edge(
            convert_value("table", self.table, str), version=None if result is None else result["version"]
        )
        return operator_lineage(Edges(inputs=(edge,)))

    def _record_result(self, result: Mapping[str, Any]) -> None:
        """Keep the result, and report the version to Airflow's collector of lineage as an input of this task."""
        self._result = result
        DeltaHook(result["table"], self.storage_conn_id).report_read(result["version"])

    def _status_of(self, wait: VersionWait) -> WaitStatus:
        """Return the status that this object keeps for a wait, or a new status if the wait is another one."""
        if self._wait_and_status is None or self._wait_and_status[0] != wait:
            self._wait_and_status = (wait, WaitStatus(wait))
        return self._wait_and_status[1]

    def _status_text(self, context: Context) -> str:
        """Return the status of the wait; an error here must not hide the timeout."""
        try:
            wait, _, hook = self._prepare_wait(context)
            return self._status_of(wait).text(hook)
        except Exception as error:  # noqa: BLE001  the docstring gives the reason
            return f"Could not read the status of the wait: {error}"

    def _defer_to_trigger(self, wait: VersionWait, position: LogPosition) -> NoReturn:
        self.defer(
            trigger=DeltaVersionTrigger(
                table=wait.table,
                after_version=wait.after_version,
                condition=wait.condition.as_dict(),
                place=position.as_dict(),
                poke_interval=self.poke_interval,
                storage_conn_id=wait.storage_conn_id,
            ),
            method_name="execute_complete",
            kwargs={"request": self._parameters().request()},
            timeout=timedelta(seconds=self.timeout),
        )

    def _parameters(self) -> WaitParameters:
        return WaitParameters.of(self)

    def _prepare_wait(self, context: Context) -> tuple[VersionWait, LogPosition, DeltaHook]:
        """Return the wait that the rendered parameters describe, the position to poll from, and a hook of the table."""
        parameters = self._parameters()
        table, conn_id, condition = parameters.table_address(), parameters.conn_id(), parameters.condition()
        hook = DeltaHook(table, conn_id)
        baseline = self._baseline(context, hook)
        wait = VersionWait(table=table, after_version=baseline.version, condition=condition, storage_conn_id=conn_id)
        return wait, self._progress(context, wait) or baseline, hook

    def _baseline(self, context: Context, hook: DeltaHook) -> LogPosition:
        """Return the position after which commits match.

        1. The author gave a version: that version.
        2. Airflow keeps state for a task: the table's position at the first poll, or -1 if there was no table. The
           position is stored for as long as the DAG run exists.
        3. Airflow keeps no state for a task: the version at the start of the DAG run. It is the same at every poll. A
           clear of a task in an ended DAG run changes it, because Airflow then starts the run again.
        """
        after_version = convert_after_version(self.after_version)
        if after_version is not None:
            return LogPosition(version=after_version)
        stored_baseline = self._stored_position(context, _BASELINE_KEY)
        request = self._parameters().request()
        try:
            saved_position = stored_baseline.get(request)
        except InvalidRequestError as error:  # with a guessed version, the wait could leave commits out
            raise InvalidRequestError(
                f"The saved starting version of this wait, {_BASELINE_KEY} in the task's state, is unreadable: "
                f"{error.problem}",
                remedy="Give after_version, or wait in a new DAG run.",
            ) from error
        if saved_position is not None:
            return saved_position
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        store = hook.get_conn()
        if not stored_baseline.is_available:
            run_start = context["dag_run"].start_date or context["dag_run"].run_after
            return LogPosition(version=watch.version_at(store, int(run_start.timestamp() * 1000)))
        position = watch.position_at(store, watch.latest_version(store))
        stored_baseline.set(request, position)
        return position

    def _progress(self, context: Context, wait: VersionWait) -> LogPosition | None:
        """Return the last position that this process, or an earlier one of this task, has read for the same wait.

        The result is None if there is no such position, or if the stored one is unreadable.
        """
        request = wait.as_dict()
        if self._last_request_and_position is not None and self._last_request_and_position[0] == request:
            return self._last_request_and_position[1]
        try:
            return self._stored_position(context, _PROGRESS_KEY).get(request)
        except InvalidRequestError as error:
            self.log.info("Reading the log from version %s again: %s", wait.after_version + 1, error.problem)
            return None

    @staticmethod
    def _stored_position(context: Context, key: str) -> StoredPosition:
        from airflow_provider_deltalite.sensors._stored_position import StoredPosition  # not used when a DAG is parsed

        return StoredPosition(context.get("task_state_store"), key)


def _is_json(value: object) -> bool:
    """Whether a value is plain JSON, which the scheduler can store in a trigger's arguments."""
    match value:
        case None | str() | int() | float():
            return True
        case list() | tuple():
            return all(map(_is_json, value))
        case Mapping():
            return all(isinstance(key, str) and _is_json(member) for key, member in value.items())
        case _:
            return False
