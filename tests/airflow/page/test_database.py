"""The queries of Airflow's database and the questions to its auth manager, with the real ones."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.page.known_tables import TaskName

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def session(airflow_db):
    from airflow.utils.session import create_session

    with create_session() as opened:
        yield opened


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

    from airflow_provider_deltalite.page.database import AirflowDatabase

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
    first, second = AirflowDatabase().assets()
    assert first.uri == "s3://lake/a"
    assert (first.producers, first.consumers) == ((TaskName(dag_id="page_in", task_id="load"),), ("page_out",))
    assert (first.watched_table, first.watched_conn_id, first.conn_id) == ("s3a://lake/a", "w", "e")
    assert (second.uri, second.producers, second.watched_table) == ("s3://lake/b", (), None)


def test_unknown_runs_and_tasks_have_no_attempts_and_no_results(session):
    from airflow_provider_deltalite.page.database import AirflowDatabase

    database = AirflowDatabase()
    assert database.existing_runs({("page_in", "r"), ("page_in", "s")}) == frozenset()
    assert database.attempts("page_in", "r", "load", -1) == []
    assert database.results("page_in", "r") == database.results("page_in", "r", "load", -1) == []


@pytest.mark.parametrize(("role", "may_read"), [("viewer", True), (None, False)])
def test_the_auth_manager_decides(session, monkeypatch, role, may_read):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_provider_deltalite.page.access import AirflowReader

    monkeypatch.setattr("airflow_provider_deltalite.page.access.get_auth_manager", SimpleAuthManager)
    reader = AirflowReader(SimpleAuthManagerUser(username="ann", role=role))
    answers = {
        reader.may_read_assets(),
        reader.may_read_asset(1),
        reader.may_read_dag("page_in"),
        reader.may_read_runs("page_in"),
        reader.may_read_tasks("page_in"),
        reader.may_read_xcoms("page_in"),
    }
    assert answers == {may_read}
    assert reader.readable_dag_ids() >= {"page_in"} if may_read else reader.readable_dag_ids() == frozenset()
