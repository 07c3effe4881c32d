"""The key of idempotency: which tries share a commit, and which never do."""

from types import SimpleNamespace

import pytest

from airflow_provider_deltalite.idempotency import app_id, generation, run_identity
from deltalite.requests import OnRerun


def ti(**changes):
    first = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1, "try_number": 1, "max_tries": 2}
    return SimpleNamespace(**{**first, **changes})


def identity(on_rerun=OnRerun.WRITE, **changes):
    return run_identity(ti(**changes), namespace="airflow", retries=2, on_rerun=on_rerun)


def test_the_app_id_names_namespace_dag_task_map_index_and_run():
    assert identity(run_id="scheduled__2026-01-01T00:00:00+00:00", map_index=3).app_id == (
        "airflow/d/t/3/scheduled__2026-01-01T00:00:00+00:00"
    )


def test_a_task_that_is_not_mapped_has_the_map_index_minus_one():
    assert identity(map_index=None).app_id == "airflow/d/t/-1/r"


def test_slashes_and_percent_signs_inside_a_name_cannot_make_two_tasks_one():
    def named(dag_id, task_id):
        return app_id("airflow", dag_id=dag_id, task_id=task_id, map_index=-1, run_id="r")

    assert named("a/b", "c") != named("a", "b/c")
    assert named("a%2Fb", "c") != named("a/b", "c")
    assert named("a/b", "c") == "airflow/a%2Fb/c/-1/r"


def test_a_retry_has_the_identity_of_the_first_try_but_for_its_number():
    first, retry = identity(try_number=1), identity(try_number=2)
    assert (first.app_id, first.txn_version) == (retry.app_id, retry.txn_version) == ("airflow/d/t/-1/r", 0)
    assert retry.details == {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1, "try_number": 2}


@pytest.mark.parametrize("on_rerun", [OnRerun.WRITE, OnRerun.REPLACE])
def test_a_clear_raises_the_transaction_version_where_the_task_writes_again(on_rerun):
    assert identity(on_rerun, max_tries=3, try_number=2).txn_version == 1


def test_a_clear_changes_nothing_where_the_task_skips():
    assert identity(OnRerun.SKIP, max_tries=3, try_number=2).txn_version == 0


def test_retries_that_were_raised_meanwhile_give_no_negative_generation():
    assert generation(max_tries=1, retries=5) == 0
