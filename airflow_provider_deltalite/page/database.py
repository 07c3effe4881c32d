"""What Airflow's metadata database knows about assets, runs and tasks, as values.

Only this module has queries of the database. It writes nothing. Airflow's checks of rights (`access.py`) also read it.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models import asset as asset_models
from airflow.models.asset import (
    AssetActive,
    AssetModel,
    DagScheduleAssetReference,
    TaskInletAssetReference,
    TaskOutletAssetReference,
)
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.models.trigger import Trigger
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from airflow.utils.types import DagRunType
from sqlalchemy import JSON, Text, and_, case, cast, func, or_, select, type_coerce

from airflow_provider_deltalite.page.freshness import Schedule
from airflow_provider_deltalite.page.known_tables import AssetFacts, TaskName, WrittenTable

_log = logging.getLogger(__name__)
_RETURN_VALUE = "return_value"
_WATCHER = "airflow_provider_deltalite.triggers.delta.DeltaTableTrigger"
_MAX_RESULTS = 500
_MAX_RESULT_LENGTH = 64 * 1024
_RUNS_PER_QUERY = 200
_MAX_WRITTEN_TABLES = 5_000
_MAX_ADDRESS_LENGTH = 2_000
_MAX_FIELDS_LENGTH = 32 * 1024
# PostgreSQL cannot read a JSON text with one of these escapes: NUL, and a surrogate, which may lack its pair.
_UNREADABLE_ESCAPES = ("\\u0000", "\\ud")
# The operators that change rows, or that make a table.
_WRITERS = (
    "DeltaConvertOperator",
    "DeltaCopyOperator",
    "DeltaDeleteOperator",
    "DeltaMergeOperator",
    "DeltaRestoreOperator",
    "DeltaScdOperator",
    "DeltaTableOperator",
    "DeltaUpdateOperator",
    "DeltaWriteOperator",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A task attempt; its state is None if it has not begun."""

    try_number: int
    state: str | None
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The return value of a task instance, if it is a dictionary, and the time at which Airflow stored it."""

    task_id: str
    map_index: int
    value: Mapping[str, Any]
    stored_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DagState:
    """Whether a DAG can start runs."""

    is_paused: bool
    has_import_errors: bool


class AirflowDatabase:
    """Queries of the metadata database. Each method opens a session, and closes it."""

    def assets(self) -> list[AssetFacts]:
        """Return the active assets, with the tasks and DAGs that use them."""
        with create_session() as session:
            active = session.execute(
                select(AssetModel.id, AssetModel.name, AssetModel.uri, AssetModel.extra)
                .join(AssetActive, (AssetActive.name == AssetModel.name) & (AssetActive.uri == AssetModel.uri))
                .order_by(AssetModel.id)
            ).all()
            outlets, inlets = TaskOutletAssetReference, TaskInletAssetReference
            producers: dict[int, list[TaskName]] = defaultdict(list)
            for asset_id, dag_id, task_id in session.execute(
                select(outlets.asset_id, outlets.dag_id, outlets.task_id).order_by(outlets.dag_id, outlets.task_id)
            ):
                producers[asset_id].append(TaskName(dag_id=dag_id, task_id=task_id))
            consumers: dict[int, set[str]] = defaultdict(set)
            for reference in (DagScheduleAssetReference, inlets):
                for asset_id, dag_id in session.execute(select(reference.asset_id, reference.dag_id)):
                    consumers[asset_id].add(dag_id)
            watchers = {asset_id: _kwargs(trigger) for asset_id, trigger in session.execute(_watchers())}
        return [
            AssetFacts(
                asset_id=asset_id,
                name=name,
                uri=uri,
                producers=tuple(producers[asset_id]),
                consumers=tuple(sorted(consumers[asset_id])),
                watched_table=_text(watchers.get(asset_id), "table"),
                watched_conn_id=_text(watchers.get(asset_id), "storage_conn_id"),
                conn_id=_text(extra, "storage_conn_id"),
            )
            for asset_id, name, uri, extra in active
        ]

    def written_tables(self) -> list[WrittenTable]:
        """Return the tables that tasks of this package have written in runs whose rendered fields Airflow still has.

        Only tasks that succeeded count, because a user may choose the table of a run by a parameter. So the user does
        not see a table that the task could not write. A user who may mark failed tasks as successful can still see it.
        """
        with create_session() as session:
            written = list(map(_written_table, session.execute(_written_tables())))
        return [*dict.fromkeys(table for table in written if table.address)]

    def existing_runs(self, runs: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Return those pairs of DAG id and run id that are DAG runs of this Airflow."""
        pairs = sorted(set(runs))
        existing_runs: set[tuple[str, str]] = set()
        with create_session() as session:
            for start in range(0, len(pairs), _RUNS_PER_QUERY):
                rows = session.execute(_existing_runs(pairs[start : start + _RUNS_PER_QUERY]))
                existing_runs |= {(dag_id, run_id) for dag_id, run_id in rows}
        return frozenset(existing_runs & set(pairs))

    def dag_state(self, dag_id: str) -> DagState | None:
        """Return whether a DAG can start runs; None if this Airflow has no such DAG."""
        query = select(DagModel.is_paused, DagModel.has_import_errors).where(
            DagModel.dag_id == dag_id, ~DagModel.is_stale
        )
        with create_session() as session:
            row = session.execute(query).first()
        if row is None:
            return None
        return DagState(is_paused=bool(row.is_paused), has_import_errors=bool(row.has_import_errors))

    def schedules(self, dag_ids: Collection[str]) -> dict[str, Schedule]:
        """Return the schedules of DAGs by their ids, without the DAGs that this Airflow lacks."""
        last_start_column = (
            select(func.max(DagRun.run_after))
            .where(DagRun.dag_id == DagModel.dag_id, DagRun.run_type == DagRunType.SCHEDULED)
            .scalar_subquery()
        )
        columns = (DagModel.dag_id, DagModel.is_paused, DagModel.next_dagrun_create_after, last_start_column)
        schedules: dict[str, Schedule] = {}
        with create_session() as session:
            for start in range(0, len(dag_ids), _RUNS_PER_QUERY):
                ids = sorted(dag_ids)[start : start + _RUNS_PER_QUERY]
                query = select(*columns).where(DagModel.dag_id.in_(ids), ~DagModel.is_stale)
                for dag_id, is_paused, next_start, last_start in session.execute(query):
                    schedules[dag_id] = Schedule(
                        is_paused=bool(is_paused), last_start=last_start, next_start=next_start
                    )
        return schedules

    def attempts(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> list[Attempt]:
        """Return the attempts of a task instance, oldest first; empty if there is no such task instance."""
        by_try: dict[int, Attempt] = {}
        with create_session() as session:
            for model in (TaskInstanceHistory, TaskInstance):
                rows = session.execute(
                    select(model.try_number, model.state, model.start_date, model.end_date).where(
                        model.dag_id == dag_id,
                        model.run_id == run_id,
                        model.task_id == task_id,
                        model.map_index == map_index,
                    )
                )
                for try_number, state, start, end in rows:
                    state_text = None if state is None else str(getattr(state, "value", state))
                    by_try[try_number] = Attempt(try_number=try_number, state=state_text, start=start, end=end)
        return [by_try[number] for number in sorted(by_try)]

    def newest_runs(self, dag_id: str, limit: int) -> list[str]:
        """Return the ids of the newest runs of a DAG, newest first."""
        query = select(DagRun.run_id).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(limit)
        with create_session() as session:
            return list(session.scalars(query))

    def results(
        self, dag_id: str, run_id: str, task_id: str | None = None, map_index: int | None = None
    ) -> list[TaskResult]:
        """Return the return values that are dictionaries: of the tasks of a run, or of one task instance.

        The values are untrusted, so the method only parses JSON, and leaves out long values. It returns at most 500
        values.
        """
        text = cast(XComModel.value, Text)
        query = select(XComModel.task_id, XComModel.map_index, XComModel.timestamp, text.label("text")).where(
            XComModel.dag_id == dag_id,
            XComModel.run_id == run_id,
            XComModel.key == _RETURN_VALUE,
            func.length(text) <= _MAX_RESULT_LENGTH,
        )
        if task_id is not None:
            query = query.where(XComModel.task_id == task_id, XComModel.map_index == map_index)
        with create_session() as session:
            rows = session.execute(query.order_by(XComModel.timestamp).limit(_MAX_RESULTS)).all()
        return list(_task_results(rows))


def _watchers() -> Any:
    """Return the query for the watchers of this package: asset id and trigger. Airflow 3.1 has no model of them."""
    model = getattr(asset_models, "AssetWatcherModel", None)
    link = getattr(asset_models, "asset_trigger_association_table").c if model is None else model  # noqa: B009  of 3.1
    return select(link.asset_id, Trigger).where(Trigger.id == link.trigger_id, Trigger.classpath == _WATCHER)


def _written_tables() -> Any:
    """Return the query for the rendered tables and connections of tasks that succeeded.

    The column `text` has all fields as JSON if the database may fail to read values from them; otherwise it is NULL. A
    database evaluates the branches of a `CASE` in order, so it never reads a value from such a text.
    """
    fields, task = RenderedTaskInstanceFields, TaskInstance
    values = type_coerce(fields.rendered_fields, JSON)  # Airflow 3.1 declares another type
    text = cast(fields.rendered_fields, Text)
    is_unreadable = or_(*(text.contains(escape, autoescape=True) for escape in _UNREADABLE_ESCAPES))
    address, conn_id = (
        case((is_unreadable, None), else_=values[name].as_string()).label(label)
        for name, label in (("table", "address"), ("storage_conn_id", "conn_id"))
    )
    unreadable_text = case((is_unreadable, text), else_=None).label("text")
    return (
        select(fields.dag_id, fields.task_id, address, conn_id, unreadable_text)
        .join(
            task,
            and_(
                task.dag_id == fields.dag_id,
                task.run_id == fields.run_id,
                task.task_id == fields.task_id,
                task.map_index == fields.map_index,
            ),
        )
        .where(task.operator.in_(_WRITERS), task.state == TaskInstanceState.SUCCESS)
        .where(or_(func.length(address) <= _MAX_ADDRESS_LENGTH, func.length(unreadable_text) <= _MAX_FIELDS_LENGTH))
        .distinct()
        .order_by(fields.dag_id, fields.task_id, address)
        .limit(_MAX_WRITTEN_TABLES)
    )


def _written_table(row: Any) -> WrittenTable:
    """Return the table of a row of `_written_tables`; its address is empty if the row has none, or a too long one."""
    fields = {"table": row.address, "storage_conn_id": row.conn_id} if row.text is None else _parsed(row.text)
    address = _text(fields, "table") or ""
    return WrittenTable(
        task=TaskName(dag_id=row.dag_id, task_id=row.task_id),
        address=address if len(address) <= _MAX_ADDRESS_LENGTH else "",
        conn_id=_text(fields, "storage_conn_id"),
    )


def _existing_runs(pairs: Collection[tuple[str, str]]) -> Any:
    """Return the query for the pairs of DAG id and run id that exist; it uses the index on both columns."""
    by_dag: dict[str, list[str]] = defaultdict(list)
    for dag_id, run_id in pairs:
        by_dag[dag_id].append(run_id)
    conditions = [and_(DagRun.dag_id == dag_id, DagRun.run_id.in_(run_ids)) for dag_id, run_ids in by_dag.items()]
    return select(DagRun.dag_id, DagRun.run_id).where(or_(*conditions))


def _task_results(rows: Iterable[Any]) -> Iterable[TaskResult]:
    for row in rows:
        value = _parsed(row.text)
        if isinstance(value, str):  # Airflow stores some values as the JSON text of their JSON text
            value = _parsed(value)
        if isinstance(value, Mapping):
            yield TaskResult(task_id=row.task_id, map_index=row.map_index, value=value, stored_at=row.timestamp)


def _parsed(text: object) -> Any:
    """Return the value of a JSON text; None if the text is invalid."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _kwargs(trigger: Trigger) -> Mapping[str, Any] | None:
    """Return the arguments of a trigger; None if this Airflow cannot decrypt them."""
    try:
        return trigger.kwargs
    except Exception:  # noqa: BLE001  the trigger of one asset must not take the other tables from the page
        _log.warning("Could not read the watcher of an asset: trigger %s.", trigger.id, exc_info=True)
        return None


def _text(values: Any, name: str) -> str | None:
    """Return the text with this name in a mapping; None if there is no such text, or if it is empty."""
    value = values.get(name) if isinstance(values, Mapping) else None
    return value if isinstance(value, str) and value else None
