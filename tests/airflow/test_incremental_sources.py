"""A task with an incremental source starts no job if the worker sees that there is nothing new."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from airflow_provider_deltalite.operators.delta import (
    DeltaMergeOperator,
    DeltaScdOperator,
    DeltaTableOperator,
    DeltaWriteOperator,
)
from deltalite.errors import InvalidRequestError
from deltalite.requests import OnGap, Source
from deltalite.storage.local import LocalLogStore
from deltalite.txn.flows import FlowId
from deltalite.txn.quarantine import quarantine_app_id

TABLE_ID = "0b6d0a9e-7c5d-4d57-9a53-3c3b1d3c0f10"
SOURCE = {"format": "delta", "incremental": "flow"}
MERGE = {"on": "true", "when_not_matched": [{"insert": "*"}]}


@pytest.fixture
def source(make_table, tmp_path):
    """A source table with the versions 0 and 1."""
    source = make_table(tmp_path / "lake" / "source")
    source.create()
    source.commit(1, source.add())
    return source


def offset(table, version, source_table_id=TABLE_ID):
    return table.txn(FlowId(name="flow", source_table_id=source_table_id).app_id, version)


def other_run_loads_version_1(table) -> str:
    """The code of a job during which another run loads version 1 of the source."""
    log, action = f"{table}/_delta_log/{1:020}.json", json.dumps(offset(table, 1))
    return f"open({log!r}, 'w').write({action!r})\n"


def load_task(table, source, operator=DeltaWriteOperator, **parameters):
    defaults = {"task_id": "load", "retries": 2, "retry_delay": timedelta(0)}
    return operator(table=str(table), source={**SOURCE, "path": str(source)}, **{**defaults, **parameters})


@pytest.mark.parametrize(("operator", "parameters"), [(DeltaWriteOperator, {}), (DeltaMergeOperator, MERGE)])
def test_a_task_without_a_new_version_starts_no_job_and_says_why(
    table, source, spark_submit, context, operator, parameters
):
    table.create(offset(table, 1))
    result = load_task(table, source, operator, **parameters).execute(context)
    assert not spark_submit.was_called
    assert (result["skipped"], result["committed"], result["version"]) == (True, False, 0)
    assert result["flows"]["source"] == {
        "flow": "flow", "source_table_id": TABLE_ID, "after_version": 1, "to_version": 1,
    }  # fmt: skip
    assert result["skip_reason"] == "The incremental sources have no new version: the flow 'flow' has loaded version 1."
    assert result["operation"] == ("WRITE" if operator is DeltaWriteOperator else "MERGE")


@pytest.mark.parametrize(
    "commit",
    [
        lambda table: table.create(offset(table, 0)),
        lambda table: table.create(),
        lambda table: table.create(offset(table, 1, "another id")),
        lambda table: table.create(offset(table, 2)),
        lambda table: None,
    ],
    ids=["a new version", "the first load", "a recreated source", "a source below the offset", "no table"],
)
def test_the_job_decides_if_there_may_be_work(table, source, spark_submit, context, commit):
    commit(table)
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(Exception, match=r"."):
        load_task(table, source).execute(context)
    assert spark_submit.was_called


@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        (DeltaWriteOperator, {}),
        (DeltaMergeOperator, MERGE),
        (DeltaScdOperator, {"keys": ["id"], "sequence_by": "at"}),
    ],
)
def test_the_job_removes_the_rows_that_an_attempt_put_into_the_quarantine(
    table, source, spark_submit, context, make_table, tmp_path, operator, parameters
):
    table.create(offset(table, 1))
    quarantine = make_table(tmp_path / "bad")
    audits = [{"name": "ids", "rows": "id IS NULL", "level": "quarantine"}]
    task = load_task(table, source, operator, audits=audits, quarantine=str(quarantine), **parameters)
    assert task.addresses(task._request()) == [str(table), str(quarantine), str(source)]
    assert task.execute(context)["skip_reason"], "there is no quarantine table"
    request = task.prepare_request(task._request(), context)
    quarantine.create(quarantine.txn(quarantine_app_id(request.identity.app_id, str(table)), 0))
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(Exception, match=r"Error code is: 1"):
        task.execute(context)
    assert spark_submit.was_called
    assert task.find_result_after_job(LocalLogStore(str(table)), request, failed=False).skip_reason


def test_the_job_decides_if_the_mode_does_not_allow_an_existing_table(table, source, spark_submit, context):
    table.create(offset(table, 1))
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(Exception, match=r"Error code is: 1"):
        load_task(table, source, mode="error").execute(context)
    assert spark_submit.was_called


def test_the_job_decides_if_the_worker_cannot_read_the_source(table, tmp_path, spark_submit, context):
    table.create(offset(table, 1))
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(Exception, match=r"."):
        load_task(table, tmp_path / "no table").execute(context)
    assert spark_submit.was_called


def test_a_job_that_commits_nothing_and_loses_its_result_had_nothing_new(table, source, spark_submit, context):
    table.create(offset(table, 0))
    spark_submit.set_script(other_run_loads_version_1(table))
    result = load_task(table, source).execute(context)
    assert spark_submit.was_called
    assert (result["skipped"], result["committed"], bool(result["skip_reason"])) == (True, False, True)


def test_a_failed_job_does_not_count_as_nothing_new(table, source, spark_submit, context):
    table.create(offset(table, 0))
    spark_submit.set_script(other_run_loads_version_1(table) + "raise SystemExit(1)")
    with pytest.raises(Exception, match=r"."):
        load_task(table, source).execute(context)


@pytest.mark.parametrize("value", [True, "flow"])
def test_the_parameters_reach_the_request(value):
    source = {"format": "delta", "path": "/s", "incremental": value, "max_versions": "3", "on_gap": "reload"}
    task = DeltaWriteOperator(task_id="t", table="/t", source=source)
    expected = Source(format="delta", path="/s", incremental=value, max_versions=3, on_gap=OnGap.RELOAD)
    assert task._request().sources["source"] == expected
    reset = DeltaTableOperator(task_id="t", table="/t", reset_flows={"a": None, "b": "4"})
    assert reset._request().reset_flows == {"a": None, "b": 4}


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"source": {**SOURCE, "path": "/s"}, "mode": "overwrite"}, "needs mode 'append' or 'error'"),
        ({"source": {**SOURCE, "path": "/s"}, "on_rerun": "replace"}, "on_rerun='replace'"),
        ({"source": {**SOURCE, "path": "/s", "on_gap": "skip"}}, "on_gap"),
        ({"source": {**SOURCE, "path": "/s", "version_as_of": 1}}, "version_as_of"),
        ({"source": {"format": "csv", "path": "/s", "incremental": True}}, "format 'delta'"),
    ],
)
def test_a_wrong_constant_fails_when_the_dag_is_parsed(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        DeltaWriteOperator(task_id="load", table="/t", **parameters)
