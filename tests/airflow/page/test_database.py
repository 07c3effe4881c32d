"""The page queries a real database of Airflow, and asks a real auth manager."""

from __future__ import annotations

import json
import shutil
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from airflow_provider_deltalite.page.database import AirflowDatabase
from airflow_provider_deltalite.page.freshness import Schedule
from airflow_provider_deltalite.page.known_tables import TaskName, WrittenTable
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import task_metadata
from tests.support.postgres import postgres
from tests.unit.builders import create

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def session(airflow_db, tmp_path_factory):
    """A session of a separate database, a copy of the empty one. The page and the auth manager read it too.

    Its connections check no foreign keys, so that a test can add a task without the rows that belong to the task.
    """
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    copy = shutil.copy(airflow_db / "empty.db", tmp_path_factory.mktemp("page") / "airflow.db")
    engine = create_engine(f"sqlite:///{copy}")
    with pytest.MonkeyPatch.context() as patch, Session(engine) as opened:
        for module in ("airflow_provider_deltalite.page.database", "airflow.utils.session"):
            patch.setattr(f"{module}.create_session", lambda: Session(engine))
        yield opened
    engine.dispose()


def test_assets_come_with_their_tasks_dags_watcher_and_connection(session):
    from airflow.models import asset as asset_models
    from airflow.models.asset import (
        AssetActive,
        AssetModel,
        DagScheduleAssetReference,
        TaskOutletAssetReference,
    )
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.trigger import Trigger

    session.add(DagBundleModel(name="page"))
    session.flush()
    session.add_all(DagModel(dag_id=dag_id, bundle_name="page", fileloc="/x") for dag_id in ("page_in", "page_out"))
    assets = [AssetModel(name=f"s3://lake/{n}", uri=f"s3://lake/{n}", extra={"storage_conn_id": "e"}) for n in "ab"]
    inactive = AssetModel(name="s3://lake/c", uri="s3://lake/c", extra={})
    trigger = Trigger(
        classpath="airflow_provider_deltalite.triggers.delta.DeltaTableTrigger",
        kwargs={"table": "s3a://lake/a", "storage_conn_id": "w"},
    )
    session.add_all([*assets, inactive, trigger])
    session.flush()
    session.add_all(AssetActive(name=asset.name, uri=asset.uri) for asset in assets)
    if hasattr(asset_models, "AssetWatcherModel"):
        session.add(asset_models.AssetWatcherModel(name="w", asset_id=assets[0].id, trigger_id=trigger.id))
    else:  # Airflow 3.1
        ids = {"asset_id": assets[0].id, "trigger_id": trigger.id}
        session.execute(asset_models.asset_trigger_association_table.insert().values(ids))
    session.add(TaskOutletAssetReference(asset_id=assets[0].id, dag_id="page_in", task_id="load"))
    session.add(DagScheduleAssetReference(asset_id=assets[0].id, dag_id="page_out"))
    session.commit()
    first, second = (asset for asset in AirflowDatabase().assets() if asset.uri.startswith("s3://lake/"))
    assert first.uri == "s3://lake/a"
    assert (first.producers, first.consumers) == ((TaskName(dag_id="page_in", task_id="load"),), ("page_out",))
    assert (first.watched_table, first.watched_conn_id, first.conn_id) == ("s3a://lake/a", "w", "e")
    assert (second.uri, second.producers, second.watched_table) == ("s3://lake/b", (), None)


def test_unknown_runs_and_tasks_have_no_attempts_and_no_results(session):
    database = AirflowDatabase()
    assert database.existing_runs({("page_in", "r"), ("page_in", "s")}) == frozenset()
    assert database.attempts("page_in", "r", "load", -1) == []
    assert database.results("page_in", "r") == database.results("page_in", "r", "load", -1) == []


def test_the_schedule_of_a_dag_has_its_newest_scheduled_run_and_its_next_one(session):
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from sqlalchemy import insert

    first, second, third = (datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3))
    session.merge(DagBundleModel(name="page"))
    session.flush()
    for dag_id, facts in {
        "page_daily": {"next_dagrun_create_after": third, "is_paused": False},
        "page_by_hand": {"is_paused": True},
        "page_gone": {"is_stale": True},
    }.items():
        session.add(DagModel(dag_id=dag_id, bundle_name="page", fileloc="/x", **{"is_stale": False, **facts}))
    session.flush()
    for run_type, time in (("scheduled", first), ("scheduled", second), ("manual", third)):
        run = {"dag_id": "page_daily", "run_id": f"{run_type}__{time}", "run_type": run_type, "run_after": time}
        session.execute(insert(DagRun).values(**run, state="success"))
    session.commit()
    names = {"page_daily", "page_by_hand", "page_gone", "page_unknown"}
    assert AirflowDatabase().schedules(names) == {
        "page_daily": Schedule(is_paused=False, last_start=second, next_start=third),
        "page_by_hand": Schedule(is_paused=True),
    }
    assert AirflowDatabase().schedules(frozenset()) == {}


def test_existing_runs_and_all_attempts_of_a_task_are_found(session):
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.taskinstancehistory import TaskInstanceHistory
    from sqlalchemy import insert

    run = {"dag_id": "page_runs", "run_id": "r+1"}
    task = {**run, "task_id": "load", "map_index": -1}
    begin = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for run_id in ("r+1", "s", "t"):
        dag_run = {**run, "run_id": run_id}
        session.execute(insert(DagRun).values(**dag_run, run_type="manual", run_after=begin, state="success"))
    id_type = TaskInstanceHistory.task_instance_id.type.python_type  # a text in Airflow 3.1
    values = {"pool": "p", "pool_slots": 1, "start_date": begin}
    session.execute(insert(TaskInstance).values(**task, try_number=2, state="success", **values))
    other_task = {**task, "map_index": 3}
    session.execute(insert(TaskInstance).values(**other_task, try_number=1, state="failed", **values))
    history = {"task_instance_id": id_type(str(uuid.uuid4())), "try_number": 1, "state": "failed", **values}
    session.execute(insert(TaskInstanceHistory).values(**task, **history))
    session.commit()
    database = AirflowDatabase()
    assert database.existing_runs({("page_runs", "r+1"), ("page_runs", "r")}) == {("page_runs", "r+1")}
    assert database.newest_runs("page_runs", 2) == ["t", "s"] and database.newest_runs("unknown", 2) == []
    attempts = database.attempts("page_runs", "r+1", "load", -1)
    assert [(attempt.try_number, attempt.state) for attempt in attempts] == [(1, "failed"), (2, "success")]
    assert {attempt.start for attempt in attempts} == {begin}


def test_the_tables_of_operators_that_write_and_succeeded_are_known(session):
    from airflow.models.dagrun import DagRun
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import insert

    begin = datetime(2026, 3, 1, 12, tzinfo=UTC)
    tasks = [
        ("write", "DeltaWriteOperator", "success", {"table": "/lake/a", "storage_conn_id": "lake", "mode": "append"}),
        ("merge", "DeltaMergeOperator", "success", {"table": "/lake/b", "storage_conn_id": None}),
        ("failed", "DeltaWriteOperator", "failed", {"table": "/lake/failed"}),
        ("read", "DeltaCheckOperator", "success", {"table": "/lake/read"}),
        ("other", "BashOperator", "success", {"table": "/lake/other"}),
        ("without", "DeltaWriteOperator", "success", {}),
        ("null", "DeltaWriteOperator", "success", {"table": None}),
        ("long", "DeltaWriteOperator", "success", {"table": "/" + "x" * 3000}),
    ]
    for run_id in ("r1", "r2"):
        run = {"dag_id": "page_written", "run_id": run_id}
        session.execute(insert(DagRun).values(**run, run_type="manual", run_after=begin, state="success"))
        for task_id, operator, state, fields in tasks:
            task = {**run, "task_id": task_id, "map_index": -1}
            values = {"try_number": 1, "pool": "p", "pool_slots": 1, "start_date": begin}
            session.execute(insert(TaskInstance).values(**task, state=state, operator=operator, **values))
            session.execute(insert(RenderedTaskInstanceFields).values(**task, rendered_fields=fields))
    session.commit()
    expected = [("merge", "/lake/b", None), ("write", "/lake/a", "lake")]
    assert AirflowDatabase().written_tables() == [
        WrittenTable(task=TaskName(dag_id="page_written", task_id=task_id), address=address, conn_id=conn_id)
        for task_id, address, conn_id in expected
    ]


def test_a_rendered_text_that_postgresql_cannot_read_hides_no_table(monkeypatch):
    """An option of a CSV source may be NUL (`quote`), and PostgreSQL then reads no value of the task's fields."""
    pytest.importorskip("psycopg2")
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import create_engine, insert, text
    from sqlalchemy.orm import Session

    from airflow_provider_deltalite.page import database

    tasks = [
        ("nul", {"table": "/lake/nul", "storage_conn_id": "lake", "source": {"options": {"quote": "\x00"}}}),
        ("plain", {"table": "/lake/plain", "storage_conn_id": None}),
        ("surrogate", {"table": "/lake/é😀", "user_metadata": "\ud800"}),
        ("without", {"table": None, "user_metadata": "\x00"}),
        ("many", {"table": "/lake/many", "user_metadata": "\x00" * 10_000}),
    ]
    with postgres() as address:
        engine = create_engine(address)
        import_all_models()
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            session.execute(text("SET session_replication_role = replica"))  # without the rows of the DAG and its run
            for task_id, fields in tasks:
                task = {"dag_id": "page_nul", "run_id": "r", "task_id": task_id, "map_index": -1}
                values = {"try_number": 1, "pool": "p", "pool_slots": 1, "operator": "DeltaWriteOperator"}
                session.execute(insert(TaskInstance).values(**task, **values, state="success"))
                session.execute(insert(RenderedTaskInstanceFields).values(**task, rendered_fields=fields))
            session.commit()
        monkeypatch.setattr(database, "create_session", lambda: Session(engine))
        written = AirflowDatabase().written_tables()
        engine.dispose()
    expected = [("nul", "/lake/nul", "lake"), ("plain", "/lake/plain", None), ("surrogate", "/lake/é😀", None)]
    assert sorted((table.task.task_id, table.address, table.conn_id) for table in written) == expected


def test_the_writers_are_operators_of_this_package():
    from airflow_provider_deltalite.operators import delta
    from airflow_provider_deltalite.page.database import _WRITERS

    other_operators = {"Check", "Checkpoint", "GenerateManifest", "LakeMaintenance", "Optimize", "Vacuum"}
    assert set(_WRITERS) == set(delta.__all__) - {f"Delta{name}Operator" for name in other_operators}


def _run_query(runs):
    from sqlalchemy.dialects import sqlite

    from airflow_provider_deltalite.page.database import _existing_runs

    return str(_existing_runs(runs).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


def test_runs_are_looked_up_by_the_index_of_dag_and_run(session):
    from sqlalchemy import text

    plan = session.execute(text(f"EXPLAIN QUERY PLAN {_run_query([('a', 'r'), ('a', 's'), ('b', 'r')])}")).all()
    steps = [row[-1] for row in plan]
    assert not [step for step in steps if step.startswith("SCAN")]
    assert [step for step in steps if "dag_id=? AND run_id=?" in step]


@pytest.mark.parametrize("run_id", ["x\ud800", "x\x00", "x\u202e"])
def test_a_commit_of_an_impossible_run_breaks_no_page(session, delta_page, tmp_path, run_id):
    root = tmp_path / "t"
    create(LocalLogStore(str(root)))
    line = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": task_metadata(run_id=run_id)}}
    (root / commit_name(1)).write_text(json.dumps(line) + "\n")
    key = delta_page.add_asset(root)
    delta_page.database.existing_runs = AirflowDatabase().existing_runs
    for path in ("/lake", f"/tables/{key}", f"/tables/{key}/versions/1"):
        delta_page.get(path)


def _stored_result(value):
    return SimpleNamespace(task_id="load", map_index=-1, timestamp=None, text=json.dumps(value))


@pytest.mark.parametrize(
    ("value", "is_dictionary"),
    [
        ({"table": "a"}, True),
        (json.dumps({"table": "a"}), True),
        ({"__classname__": "os.system", "__version__": 1, "__data__": "x"}, True),
        (json.dumps({"__classname__": "builtins.tuple", "__data__": [1], "__version__": 1}), True),
        ("[" * 100_000, False),
        ("1" * 10_000, False),
        (7, False),
    ],
)
def test_only_a_dictionary_is_a_result_and_its_values_stay_plain_json(value, is_dictionary):
    from airflow_provider_deltalite.page.database import _task_results

    results = list(_task_results([_stored_result(value)]))
    if is_dictionary:
        expected = value if isinstance(value, dict) else json.loads(value)
        assert [result.value for result in results] == [expected]
    else:
        assert results == []


def test_a_long_return_value_is_not_loaded(session):
    from airflow.models.xcom import XComModel

    for task_id, length in (("short", 10), ("long", 100_000)):
        session.add(
            XComModel(dag_run_id=1, dag_id="page_x", run_id="r", task_id=task_id, map_index=-1, key="return_value",
                      value=json.dumps({"table": "t" * length}))
        )  # fmt: skip
    session.commit()
    [result] = AirflowDatabase().results("page_x", "r")
    assert result.task_id == "short" and result.stored_at is not None and result.stored_at.tzinfo is not None


def test_a_trigger_that_cannot_be_decrypted_is_left_out():
    from airflow_provider_deltalite.page.database import _kwargs

    class Broken:
        id = 1

        @property
        def kwargs(self):
            raise ValueError("Fernet")

    assert _kwargs(Broken()) is None


@pytest.mark.parametrize(("role", "may_read"), [("viewer", True), (None, False)])
def test_the_auth_manager_decides_what_a_user_may_read(session, monkeypatch, role, may_read):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_provider_deltalite.page.access import AirflowRights

    monkeypatch.setattr("airflow_provider_deltalite.page.access.get_auth_manager", SimpleAuthManager)
    rights = AirflowRights(SimpleAuthManagerUser(username="ann", role=role))
    answers = {
        rights.may_read_assets(),
        rights.may_read_asset(1),
        rights.may_read_dag("page_in"),
        rights.may_read_runs("page_in"),
        rights.may_read_tasks("page_in"),
        rights.may_read_xcoms("page_in"),
    }
    assert answers == {may_read}
    assert rights.readable_dag_ids() >= {"page_in"} if may_read else rights.readable_dag_ids() == frozenset()
