"""The sensor that waits for a new version of a table.

Poking, rescheduled and deferred, it looks in the same way (`waiting`) and returns the same dictionary. The first look
is always made here; a deferrable sensor that sees nothing then hands over to the trigger, from inside `poke`, so that
`soft_fail` and its kin are the base class's in both modes. What may be lost between two looks is the cursor, which only
saves reading; the version that a wait begins after is fixed once, outside of this object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.providers.common.compat.sdk import AirflowException, BaseSensorOperator, PokeReturnValue, conf

from airflow_provider_deltalite.failures import airflow_failures, error_class_named, failure
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.rendered import fitted, record
from airflow_provider_deltalite.triggers.delta import DeltaVersionTrigger
from airflow_provider_deltalite.waiting import VersionWait, look
from deltalite.conditions import CommitCondition
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_BASELINE_KEY = "deltalite_after_version"


class DeltaVersionSensor(BaseSensorOperator):
    """Wait for a commit to a Delta table, and return ``{table, version, after_version, operation, timestamp}``.

    The first commit after ``after_version`` for which every given condition holds counts, also where later ones do too.
    A table that does not exist yet is waited for, and a storage that does not answer is asked again, until ``timeout``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param after_version: Only commits after this version count; -1 for any. Where it is left out, it is the table's
        version when this task of this DAG run first looked (before Airflow 3.3: when the DAG run started), and stays so
        through reschedules, deferrals, retries and clears. (templated)
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
        self._cursor: int | None = None

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once; a deferrable sensor that sees nothing defers."""
        with airflow_failures():
            wait = self._wait(context)
            seen = look(wait, wait.after_version if self._cursor is None else self._cursor)
        self._cursor = seen.cursor
        if seen.found is None and self.deferrable:
            self._hand_over(wait, seen.cursor)
        return PokeReturnValue(is_done=seen.found is not None, xcom_value=seen.found)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return what the trigger found, or raise what it met."""
        match event:
            case {"status": "success", "result": dict() as result}:
                return result
            case {"status": "error", "kind": str() as kind, "message": str() as message}:
                cls = error_class_named(kind)
                raise AirflowException(f"{kind}: {message}") if cls is None else failure(cls, message)
            case _:
                raise AirflowException(f"The trigger sent an event that this sensor does not know: {event!r}")

    def _hand_over(self, wait: VersionWait, cursor: int) -> NoReturn:
        self.defer(
            trigger=DeltaVersionTrigger(
                table=wait.table,
                after_version=wait.after_version,
                condition=wait.condition.as_dict(),
                cursor=cursor,
                poke_interval=self.poke_interval,
                storage_conn_id=wait.storage_conn_id,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _wait(self, context: Context) -> VersionWait:
        """What the rendered parameters ask for."""
        condition = {
            "data_change_only": self.data_change_only,
            "operations": self.operations,
            "partition": self.partition,
            "app_id": self.app_id,
        }
        return VersionWait(
            table=fitted("table", self.table, str),
            after_version=self._baseline(context),
            condition=record("", condition, CommitCondition),
            storage_conn_id=fitted("storage_conn_id", self.storage_conn_id, str | None),
        )

    def _baseline(self, context: Context) -> int:
        """The version after which commits count.

        1. The author gave it.
        2. Airflow keeps state for a task: the table's version at the first look, -1 where there was no table, kept for
           as long as the DAG run is.
        3. It keeps none: the version when the DAG run started, which is the same at every look.
        """
        given: int | None = fitted("after_version", self.after_version, int | None)
        if given is not None:
            if given < -1:
                raise InvalidRequestError(f"after_version is {given}.", remedy="Give a version, or -1 for any.")
            return given
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        store = DeltaHook(fitted("table", self.table, str), self.storage_conn_id).get_conn()
        kept = context.get("task_state_store")
        if kept is None:
            started = context["dag_run"].start_date or context["dag_run"].run_after
            return watch.version_at(store, int(started.timestamp() * 1000))
        baseline = kept.get(_BASELINE_KEY)
        if baseline is None:
            from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # as old as the state store

            baseline = watch.latest_version(store)
            kept.set(_BASELINE_KEY, baseline, retention=NEVER_EXPIRE)
            self.log.info("Waiting for a version of %s after %s.", store.root, baseline)
        return cast("int", baseline)
