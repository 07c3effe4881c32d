"""The sensor that waits for a new version of a table.

Poking, rescheduled and deferred, it looks in the same way (`waiting`) and returns the same dictionary. The first look
is always made here; a deferrable sensor that sees nothing then hands over to the trigger, from inside `poke`, so that
`soft_fail` and its kin are the base class's in both modes. What may be lost between two looks is how far they came,
which only saves reading; the version that a wait begins after is fixed once, outside of this object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    PokeReturnValue,
    conf,
)

from airflow_provider_deltalite.failures import FailedTable, error_class_named, failure, raise_for_airflow
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.parse_time import CheckedWhenParsed, Constants
from airflow_provider_deltalite.quoting import QuotingTemplates
from airflow_provider_deltalite.rendered import fitted, record
from airflow_provider_deltalite.secrets import HidesSecrets
from airflow_provider_deltalite.sensors._kept import KeptPlace
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from airflow_provider_deltalite.wait_status import WaitStatus
from airflow_provider_deltalite.waiting import VersionWait, look, wait_request
from deltalite.conditions import MADE_BY_TIMES, CommitCondition, Place
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.requests.provenance import moment
from deltalite.storage.locations import parse_location, refuse_climbing

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_BASELINE_KEY = "deltalite_after_version"
_PROGRESS_KEY = "deltalite_place"


class DeltaVersionSensor(HidesSecrets, QuotingTemplates, BaseSensorOperator, metaclass=CheckedWhenParsed):
    """Wait for a commit to a Delta table, and return what was found.

    That is ``{table, from_version, version, after_version, reset, operation, timestamp}``: the first commit after
    ``after_version`` for which every given condition holds, also where later ones do too, and the first version that
    was new. A table that does not exist yet is waited for, and a storage that does not answer is asked again, until
    ``timeout``. Where the table was dropped and made again meanwhile, the wait goes on at its first version, and
    ``reset`` is true; commits that log cleanup took away unseen are passed over, with a warning.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param after_version: Only commits after this version count; -1 for any. Where it is left out, it is the table's
        version when this task of this DAG run first looked, and stays so through reschedules, deferrals, retries and
        clears; under ``[state_store] clear_on_success`` a clear after a success looks anew. Before Airflow 3.3 it is
        the version when the DAG run started, and a clear in a DAG run that had ended starts that again. (templated)
    :param data_change_only: Pass over commits that add or remove no rows, such as OPTIMIZE, a change of properties, or
        a write without rows. Where it is left out, they are passed over unless ``operations``, ``app_id`` or
        ``made_by`` is given.
    :param operations: Only these operations count, as the table's history names them (``WRITE``, ``MERGE``, ...).
        (templated)
    :param partition: Only commits that add or remove a file with these partition values count; column names are
        compared without regard to case, values are texts as Delta serializes them, None for null. (templated)
    :param app_id: Only commits with this transaction identifier count. (templated)
    :param made_by: Only commits of an Airflow task with these properties count: a mapping of ``dag_id``, ``task_id``,
        ``run_id``, ``map_index``, ``idempotency_key``, ``logical_date``, ``data_interval_start`` and
        ``data_interval_end``, of which one or several are given. Times are ISO 8601, in UTC where no zone is named. By
        a data interval the commit of another DAG is found whether that DAG was scheduled, backfilled or triggered.
        (templated)
    :param storage_conn_id: The Airflow connection that opens the table's storage. (templated)
    :param deferrable: Wait in the triggerer, without a worker slot.
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
        self._reached: tuple[dict[str, Any], Place] | None = None
        self._found: Mapping[str, Any] | None = None
        self._status: tuple[VersionWait, WaitStatus] | None = None

    def execute(self, context: Context) -> Any:
        """Wait in this process; a timeout says what was waited for."""
        try:
            return super().execute(context)
        except (AirflowSensorTimeout, AirflowSkipException) as error:
            if error.__cause__ is not None:  # soft_fail after another error
                raise
            raise type(error)(f"{error} {self._status_text(context)}") from error

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after a deferral; a timeout says what was waited for."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except AirflowSensorTimeout as error:
            raise AirflowSensorTimeout(f"{error} {self._status_text(context)}") from error
        except AirflowSkipException as error:
            if not isinstance(error.__cause__, AirflowSensorTimeout):
                raise
            raise AirflowSkipException(f"{error} {error.__cause__} {self._status_text(context)}") from error.__cause__

    def check_constants(self, constants: Constants) -> None:
        """Refuse parameters that cannot be right whatever the templates give: called when the DAG is parsed."""
        if not constants.waits(self.table):
            table = fitted("table", self.table, str)
            parse_location(table)
            refuse_climbing(table)
        constants.check(self._condition_parameters(), CommitCondition)
        constants.check_value("after_version", self.after_version, int | None)

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; a deferrable sensor that sees nothing defers."""
        with raise_for_airflow(self.log, lambda _: FailedTable(table=str(self.table))):
            try:
                wait, place, hook = self._wait(context)
            except StorageError as error:
                if not error.retryable:
                    raise
                self.log.warning("Could not read the starting version; retrying at the next poll: %s", error)
                return PokeReturnValue(is_done=False)
            seen = look(wait, place, hook)
        self._reached = (wait.as_dict(), seen.place)
        if seen.found is None:
            self._status_of(wait).polled(hook, answered=seen.answered)
            if self.deferrable:
                self._hand_over(wait, seen.place)
        if seen.found is not None:
            self._has_found(seen.found)
        elif seen.place != place and self.reschedule:
            self._kept_progress(context).set(wait.as_dict(), seen.place)
        return PokeReturnValue(is_done=seen.found is not None, xcom_value=seen.found)

    def execute_complete(
        self, context: Context, event: Mapping[str, Any] | None = None, request: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return what the trigger found, or raise what it met.

        Airflow renders the templates again before it resumes a task. If they now ask for another request than the one
        that was deferred, the event is dropped and the wait starts again.
        """
        with raise_for_airflow(self.log, lambda _: FailedTable(table=str(self.table))):
            asked = self._request()
        if request is not None and dict(request) != asked:
            self.log.warning(
                "Starting the wait again for %s: the templates changed while the sensor was deferred for %s.",
                asked["table"],
                request.get("table"),
            )
            restarted: dict[str, Any] = self.execute(context)
            return restarted
        match event:
            case {"status": "success", "result": dict() as result}:
                self._has_found(result)
                return result
            case {"status": "error", "kind": str() as kind, "message": str() as message}:
                cls = error_class_named(kind)
                raise AirflowException(f"{kind}: {message}") if cls is None else failure(cls, message)
            case _:
                raise AirflowException(f"The trigger sent an event that this sensor does not know: {event!r}")

    def get_openlineage_facets_on_start(self) -> Any:
        """The table, as an input."""
        return self._lineage(None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  as OpenLineage calls it
        """The table as an input, at the version that was found."""
        return self._lineage(self._found)

    def _lineage(self, found: Mapping[str, Any] | None) -> Any:
        from airflow_provider_deltalite.lineage.edges import Edges, table_edge
        from airflow_provider_deltalite.lineage.facets import operator_lineage

        edge = table_edge(fitted("table", self.table, str), version=None if found is None else found["version"])
        return operator_lineage(Edges(inputs=(edge,)))

    def _has_found(self, found: Mapping[str, Any]) -> None:
        """Remember the commit, and say to Airflow's collector of lineage that this task rests on it."""
        self._found = found
        DeltaHook(found["table"], self.storage_conn_id).report_read(found["version"])

    def _status_of(self, wait: VersionWait) -> WaitStatus:
        if self._status is None or self._status[0] != wait:
            self._status = (wait, WaitStatus(wait))
        return self._status[1]

    def _status_text(self, context: Context) -> str:
        """What the sensor waited for; a status that cannot be made does not hide the timeout."""
        try:
            wait, _, hook = self._wait(context)
            return self._status_of(wait).text(hook)
        except Exception as error:  # noqa: BLE001  as the docstring says
            return f"The status of the wait is not known: {error}"

    def _hand_over(self, wait: VersionWait, place: Place) -> NoReturn:
        self.defer(
            trigger=DeltaVersionTrigger(
                table=wait.table,
                after_version=wait.after_version,
                condition=wait.condition.as_dict(),
                place=place.as_dict(),
                poke_interval=self.poke_interval,
                storage_conn_id=wait.storage_conn_id,
            ),
            method_name="execute_complete",
            kwargs={"request": self._request()},
            timeout=timedelta(seconds=self.timeout),
        )

    def _wait(self, context: Context) -> tuple[VersionWait, Place, DeltaHook]:
        """What the rendered parameters ask for, the place from which to look, and what looks."""
        table, conn_id, condition = self._table(), self._conn_id(), self._condition()
        hook = DeltaHook(table, conn_id)
        baseline = self._baseline(context, hook)
        wait = VersionWait(table=table, after_version=baseline.version, condition=condition, storage_conn_id=conn_id)
        return wait, self._progress(context, wait) or baseline, hook

    def _table(self) -> str:
        table: str = fitted("table", self.table, str)
        refuse_climbing(table)
        return table

    def _conn_id(self) -> str | None:
        conn_id: str | None = fitted("storage_conn_id", self.storage_conn_id, str | None)
        return conn_id

    def _condition(self) -> CommitCondition:
        made_by = None if self.made_by is None else _with_utc_times(self.made_by)
        return record("", {**self._condition_parameters(), "made_by": made_by}, CommitCondition)

    def _condition_parameters(self) -> dict[str, Any]:
        return {
            "data_change_only": self.data_change_only,
            "operations": self.operations,
            "partition": self.partition,
            "app_id": self.app_id,
        }

    def _request(self) -> dict[str, Any]:
        """The request of the rendered parameters, which binds every value that is kept between attempts."""
        return wait_request(self._table(), self._condition(), self._conn_id())

    def _baseline(self, context: Context, hook: DeltaHook) -> Place:
        """The place behind which commits count.

        1. The author gave a version.
        2. Airflow keeps state for a task: where the table was at the first look, before its first version where there
           was no table, kept for as long as the DAG run is.
        3. It keeps none: where it was when the DAG run started, which is the same at every look until a task is cleared
           in a run that has ended, since Airflow then starts the run anew.
        """
        given: int | None = fitted("after_version", self.after_version, int | None)
        if given is not None:
            if given < -1:
                raise InvalidRequestError(f"after_version is {given}.", remedy="Give a version, or -1 for any.")
            return Place(version=given)
        kept_baseline = KeptPlace(context.get("task_state_store"), _BASELINE_KEY)
        request = self._request()
        try:
            kept = kept_baseline.get(request)
        except InvalidRequestError as error:  # a guess in its stead could leave commits out
            raise InvalidRequestError(
                f"The saved starting version of this wait, {_BASELINE_KEY} in the task's state, is unreadable: "
                f"{error.problem}",
                remedy="Give after_version, or wait in a new DAG run.",
            ) from error
        if kept is not None:
            return kept
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        store = hook.get_conn()
        if not kept_baseline.is_available:
            started = context["dag_run"].start_date or context["dag_run"].run_after
            return Place(version=watch.version_at(store, int(started.timestamp() * 1000)))
        place = watch.place_at(store, watch.latest_version(store))
        kept_baseline.set(request, place)
        return place

    def _progress(self, context: Context, wait: VersionWait) -> Place | None:
        """How far this process, or an earlier one of this task, has read the log for the same wait."""
        asked = wait.as_dict()
        if self._reached is not None and self._reached[0] == asked:
            return self._reached[1]
        try:
            return self._kept_progress(context).get(asked)
        except InvalidRequestError as error:
            self.log.info("Reading the log from version %s again: %s", wait.after_version + 1, error.problem)
            return None

    @staticmethod
    def _kept_progress(context: Context) -> KeptPlace:
        return KeptPlace(context.get("task_state_store"), _PROGRESS_KEY)


def _with_utc_times(made_by: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a run as texts, with times as commits have them.

    Raises:
        InvalidRequestError: a time is no ISO 8601 text.
    """
    texts: dict[str, str] = fitted("made_by", made_by, Mapping[str, str])
    for name in texts.keys() & MADE_BY_TIMES:
        time = moment(texts[name])
        if time is None:
            raise InvalidRequestError(
                f"made_by.{name} is {texts[name]!r}, which is no time.",
                remedy="Give ISO 8601, such as '{{ data_interval_start.isoformat() }}'.",
            )
        texts[name] = time.isoformat()
    return texts
