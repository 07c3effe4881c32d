"""The run identity: attempts with the same app id and transaction version share one commit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from airflow_provider_deltalite.idempotency import (
    RequestDigests,
    TaskAttempt,
    app_id,
    app_id_of,
    generation_and_state,
    keyed_app_id,
    run_identity,
)
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun

DIGESTS = RequestDigests(digest="1:abc", parameters={"query": "12ab"})


def ti(**changes):
    """A task instance of the first attempt, with these changes."""
    first_attempt = {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1, "try_number": 1, "max_tries": 2}
    return SimpleNamespace(**{**first_attempt, **changes})


def identity(on_rerun=OnRerun.WRITE, *, key=None, dag_run=None, **changes):
    """The run identity of a task attempt in generation 1. `changes` apply to its task instance."""
    context = {"ti": ti(**changes), "dag_run": dag_run}
    return run_identity(
        context, namespace="airflow", generation=1, on_rerun=on_rerun, idempotency_key=key, digests=DIGESTS
    )


def test_the_app_id_names_namespace_dag_task_map_index_and_run():
    assert identity(run_id="scheduled__2026-01-01T00:00:00+00:00", map_index=3).app_id == (
        "airflow/d/t/3/scheduled__2026-01-01T00:00:00+00:00"
    )


def test_a_task_that_is_not_mapped_has_the_map_index_minus_one():
    assert identity(map_index=None).app_id == "airflow/d/t/-1/r"


def test_slashes_and_percent_signs_in_names_never_give_two_tasks_one_app_id():
    def app_id_of_task(dag_id, task_id):
        return app_id("airflow", dag_id=dag_id, task_id=task_id, map_index=-1, run_id="r")

    assert app_id_of_task("a/b", "c") != app_id_of_task("a", "b/c")
    assert app_id_of_task("a%2Fb", "c") != app_id_of_task("a/b", "c")
    assert app_id_of_task("a/b", "c") == "airflow/a%2Fb/c/-1/r"


def test_a_retry_has_the_identity_of_the_first_attempt_except_its_try_number():
    first, retry = identity(try_number=1), identity(try_number=2)
    assert (first.app_id, first.txn_version) == (retry.app_id, retry.txn_version) == ("airflow/d/t/-1/r", 1)
    assert retry.details == {"dag_id": "d", "task_id": "t", "run_id": "r", "map_index": -1, "try_number": 2}


@pytest.mark.parametrize("on_rerun", [OnRerun.WRITE, OnRerun.REPLACE])
def test_the_generation_is_the_transaction_version_if_the_task_writes_again(on_rerun):
    assert identity(on_rerun).txn_version == 1


def test_a_clear_changes_nothing_if_the_task_skips():
    assert identity(OnRerun.SKIP).txn_version == 0


@pytest.mark.parametrize(
    # `stored_pair` is the pair (`max_tries`, generation) that an earlier attempt stored, or None.
    ("stored_pair", "max_tries", "retries", "expected"),
    [
        (None, 2, 2, 0),  # the first attempt
        (None, 3, 2, 1),  # cleared once before a generation was stored
        (None, 1, 5, 0),  # retries raised before a generation was stored
        ((2, 0), 2, 2, 0),  # a retry
        ((2, 0), 2, 0, 0),  # a retry after retries were lowered
        ((2, 0), 2, 9, 0),  # a retry after retries were raised
        ((2, 0), 3, 2, 1),  # cleared after one attempt
        ((2, 0), 10, 9, 1),  # cleared after retries were raised
        ((2, 0), 1, 0, 1),  # cleared after retries were lowered, so `max_tries` falls
        ((3, 4), 3, 2, 4),  # a retry in a later generation
        ((3, 4), 7, 2, 5),  # cleared again
    ],
)
def test_only_a_clear_raises_the_generation_and_never_an_edit_of_retries(stored_pair, max_tries, retries, expected):
    old_state = (
        None if stored_pair is None else {"max_tries": stored_pair[0], "generation": stored_pair[1], "clears": 0}
    )
    attempt = TaskAttempt(try_number=2, max_tries=max_tries, retries=retries, clears=0)
    new_generation, new_state = generation_and_state(old_state, attempt)
    assert new_generation == expected
    assert new_state == {"max_tries": max_tries, "generation": expected, "clears": 0}
    assert generation_and_state(new_state, replace(attempt, retries=retries + 1)) == (expected, new_state)


@pytest.mark.parametrize(
    ("clears", "attempts", "retries", "expected"),
    [
        (1, 1, 1, 1),  # cleared after one attempt, with one retry less: `max_tries` stays 2
        (2, 2, 0, 1),  # cleared after two attempts, with two retries less: `max_tries` stays 2
        (0, 1, 1, 0),  # a retry, with one retry less: nothing was cleared
        (None, 1, 1, 0),  # an Airflow that does not count clears
        (1, 1, 2, 0),  # a retry, and another task of the run was cleared
        (1, 2, 1, 0),  # a retry: a clear after two attempts would set `max_tries` to 3
    ],
)
def test_a_clear_that_keeps_max_tries_is_recognized_by_the_clears_of_the_run(clears, attempts, retries, expected):
    old_state = {"max_tries": 2, "generation": 0, "clears": 0}
    attempt = TaskAttempt(try_number=attempts + 1, max_tries=2, retries=retries, clears=clears)
    new_generation, new_state = generation_and_state(old_state, attempt)
    assert new_generation == expected
    assert generation_and_state(new_state, replace(attempt, try_number=attempts + 2))[0] == expected, (
        "a later retry keeps the generation"
    )


def test_an_idempotency_key_replaces_run_task_and_map_index():
    app_ids = {
        identity(key="2026-01-01", **names).app_id
        for names in ({}, {"task_id": "group.t"}, {"run_id": "other"}, {"map_index": 3})
    }
    assert app_ids == {"airflow/d/2026-01-01"} == {app_id_of(dag_id="d", idempotency_key="2026-01-01")}
    assert identity(key="a", dag_id="other").app_id != identity(key="a").app_id


@pytest.mark.parametrize("key", ["t/-1/r", "t/-1/r/x", "%2F", "a b", "/", "d"])
def test_no_key_collides_with_an_app_id_or_another_key(key):
    app_id_with_key = keyed_app_id("airflow", dag_id="d", idempotency_key=key)
    assert app_id_with_key.count("/") == 2
    assert app_id_with_key != identity().app_id
    assert app_id_with_key != keyed_app_id("airflow", dag_id="d", idempotency_key=key + "x")


@pytest.mark.parametrize("key", ["", "  "])
def test_an_empty_key_is_rejected(key):
    with pytest.raises(InvalidRequestError, match="idempotency_key is empty"):
        identity(key=key)


@pytest.mark.parametrize("names", [{}, {"task_id": "t"}, {"task_id": "t", "run_id": "r", "idempotency_key": "k"}])
def test_the_app_id_macro_needs_the_names_of_one_task(names):
    with pytest.raises(InvalidRequestError, match="do not name one task"):
        app_id_of(names.pop("task_id", None), dag_id="d", **names)


def test_the_commit_contains_the_start_and_the_data_interval_of_the_run():
    east = timezone(timedelta(hours=1))
    run = SimpleNamespace(
        start_date=datetime(2026, 1, 3, 1, tzinfo=east),
        logical_date=None,
        data_interval_start=datetime(2026, 1, 1, tzinfo=UTC),
        data_interval_end=datetime(2026, 1, 2, tzinfo=UTC),
    )
    provenance = identity(key="k", dag_run=run).provenance
    assert provenance == {
        "dag_id": "d",
        "task_id": "t",
        "run_id": "r",
        "map_index": -1,
        "try_number": 1,
        "idempotency_key": "k",
        "run_start": "2026-01-03T00:00:00+00:00",
        "data_interval_start": "2026-01-01T00:00:00+00:00",
        "data_interval_end": "2026-01-02T00:00:00+00:00",
        "generation": 1,
        "request": "1:abc",
        "parameters": {"query": "12ab"},
    }


@pytest.mark.parametrize(
    ("clears", "map_index", "key", "expected"),
    [
        (1, 3, None, ("airflow/d/t/", "/r")),
        (None, 0, None, ("airflow/d/t/", "/r")),  # an Airflow that does not count clears
        (0, 3, None, ("airflow/d/t/", "/r")),
        (1, -1, None, None),
        (1, 3, "k", None),
    ],
)
def test_only_mapped_tasks_without_a_key_have_siblings(clears, map_index, key, expected):
    item_identity = identity(map_index=map_index, key=key, dag_run=SimpleNamespace(clear_number=clears))
    assert item_identity.sibling_ids == expected
    assert item_identity.is_of_cleared_run == (clears != 0)
