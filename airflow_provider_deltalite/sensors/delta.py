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

from airflow.providers.common.compat.sdk import AirflowException, BaseSensorOperator, PokeReturnValue, conf

from airflow_provider_deltalite.failures import airflow_failures, error_class_named, failure
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.quoting import QuotingTemplates
from airflow_provider_deltalite.rendered import fitted, record
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from airflow_provider_deltalite.waiting import VersionWait, look
from deltalite.conditions import CommitCondition, Place
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.storage.locations import refuse_climbing

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_BASELINE_KEY = "deltalite_after_version"
_PLACE_KEY = "deltalite_place"


class DeltaVersionSensor(QuotingTemplates, BaseSensorOperator):
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
        a write without rows. Where it is left out, they are passed over unless ``operations`` or ``app_id`` is given.
    :param operations: Only these operations count, as the table's history names them (``WRITE``, ``MERGE``, ...).
        (templated)
    :param partition: Only commits that add or remove a file with these partition values count; column names are
        compared without regard to case, values are texts as Delta serializes them, None for null. (templated)
    :param app_id: Only commits with this transaction identifier count. (templated)
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
        self.storage_conn_id = storage_conn_id
        self.deferrable = deferrable
        self._place: Place | None = None
        self._found: Mapping[str, Any] | None = None

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; a deferrable sensor that sees nothing defers."""
        with airflow_failures():
            try:
                wait, place, hook = self._wait(context)
            except StorageError as error:
                if not error.retryable:
                    raise
                self.log.warning("Where the wait begins is asked again later: %s", error)
                return PokeReturnValue(is_done=False)
            seen = look(wait, place, hook)
        self._place = seen.place
        if seen.found is None and self.deferrable:
            self._hand_over(wait, seen.place)
        if seen.found is not None:
            self._has_found(seen.found)
        elif seen.place != place:
            self._keep(context, wait, seen.place)
        return PokeReturnValue(is_done=seen.found is not None, xcom_value=seen.found)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what the trigger found, or raise what it met."""
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
            timeout=timedelta(seconds=self.timeout),
        )

    def _wait(self, context: Context) -> tuple[VersionWait, Place, DeltaHook]:
        """What the rendered parameters ask for, the place from which to look, and what looks."""
        condition = {
            "data_change_only": self.data_change_only,
            "operations": self.operations,
            "partition": self.partition,
            "app_id": self.app_id,
        }
        table = fitted("table", self.table, str)
        refuse_climbing(table)
        asked = record("", condition, CommitCondition)
        conn_id = fitted("storage_conn_id", self.storage_conn_id, str | None)
        hook = DeltaHook(table, conn_id)
        baseline = self._baseline(context, hook)
        wait = VersionWait(table=table, after_version=baseline.version, condition=asked, storage_conn_id=conn_id)
        return wait, self._place or self._kept(context, wait) or baseline, hook

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
        state = context.get("task_state_store")
        kept = None if state is None else state.get(_BASELINE_KEY)
        if kept is not None:
            return _begun(kept)
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        store = hook.get_conn()
        if state is None:
            started = context["dag_run"].start_date or context["dag_run"].run_after
            return Place(version=watch.version_at(store, int(started.timestamp() * 1000)))
        place = watch.place_at(store, watch.latest_version(store))
        _keep_for_the_run(state, _BASELINE_KEY, place.as_dict())
        self.log.info("Waiting for a version of %s after %s.", store.root, place.version)
        return place

    def _kept(self, context: Context, wait: VersionWait) -> Place | None:
        """How far an earlier process of this task has looked, where it looked for the same and that can be read."""
        state = context.get("task_state_store")
        kept = None if state is None else state.get(_PLACE_KEY)
        if not isinstance(kept, Mapping) or kept.get("of") != _asked(wait):
            return None
        try:
            return record("place", kept.get("place"), Place)
        except InvalidRequestError:
            return None

    def _keep(self, context: Context, wait: VersionWait, place: Place) -> None:
        """Remember how far this look came: a sensor that is rescheduled reads nothing twice."""
        state = context.get("task_state_store")
        if state is not None and self.reschedule:
            _keep_for_the_run(state, _PLACE_KEY, {"of": _asked(wait), "place": place.as_dict()})


def _begun(kept: object) -> Place:
    """The place behind which this task waits, from what was kept; a guess in its stead could leave commits out."""
    try:
        return record("place", kept, Place)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"Where this wait has begun cannot be read from the task's state, {_BASELINE_KEY}: {error.problem}",
            remedy="Give after_version, or wait in a new DAG run.",
        ) from error


def _asked(wait: VersionWait) -> dict[str, Any]:
    return {"table": wait.table, "after_version": wait.after_version, **wait.condition.as_dict()}


def _keep_for_the_run(state: Any, key: str, value: dict[str, Any]) -> None:
    from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # as old as the state store

    state.set(key, value, retention=NEVER_EXPIRE)
