"""DeltaLakeMaintenanceOperator: its request, its result with a row for each table, its failures and its events."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, Asset, AssetAlias

from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.lineage.edges import edges_of
from airflow_provider_deltalite.operators.delta import DeltaLakeMaintenanceOperator
from airflow_provider_deltalite.outcome import after_failure
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests import MaintainRequest, OnRerun, Thresholds, VacuumMode
from deltalite.results import JobError, OperationResult
from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.support.airflow_versions import scheduler_copy


def operator(*, native=False, rendered_with=None, **parameters) -> DeltaLakeMaintenanceOperator:
    """A task on `/lake/*` with rendered templates."""
    default_pattern = {} if {"tables", "catalog_schema"} & parameters.keys() else {"pattern": "/lake/*"}
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        task = DeltaLakeMaintenanceOperator(**{"task_id": "maintain", **default_pattern, **parameters})
    task.render_template_fields(rendered_with or {})
    return task


def rendered_request(**parameters) -> MaintainRequest:
    return operator(**parameters)._request()


@TEXT_AND_NATIVE
def test_the_default_maintains_all_tables_that_match(native):
    request = rendered_request(native=native)
    assert request == MaintainRequest(pattern="/lake/*")
    assert (request.table, request.tables, request.parallelism) == ("/lake/*", (), 4)
    assert request.thresholds == Thresholds()


@TEXT_AND_NATIVE
def test_a_schema_of_the_catalog_is_rendered_and_only_the_job_knows_its_tables(native):
    task = operator(
        native=native, catalog_schema="{{ catalog }}.`{{ name }}`", rendered_with={"catalog": "1", "name": 2}
    )
    request = task._request()
    assert request == MaintainRequest(catalog_schema="1.`2`")
    assert MaintainRequest.from_json(request.to_json()) == request
    assert (request.table, task.addresses(request)) == ("1.`2`", [])
    with pytest.raises(InvalidRequestError, match="is not the name of a schema"):
        rendered_request(catalog_schema="{{ name }}", rendered_with={"name": "a; DROP TABLE b"})


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    request = rendered_request(
        native=native, tables=["{{ lake }}/a", "/lake/b"], dry_run="{{ flag }}", optimize="{{ flag }}",
        checkpoint="false", vacuum="{{ flag }}", target_file_size="{{ n }}", min_small_files="{{ n }}",
        max_deleted_rows_ratio="0.5", checkpoint_after_commits="{{ n }}", min_dead_bytes="{{ n }}",
        vacuum_after_days="{{ n }}", vacuum_mode="lite", parallelism="{{ n }}", max_seconds="{{ n }}",
        max_bytes="{{ n }}", conflict_retries="0", rendered_with={"lake": "s3://lake", "flag": True, "n": 7},
    )  # fmt: skip
    assert request == MaintainRequest(
        tables=("s3://lake/a", "/lake/b"), dry_run=True, checkpoint=False, target_file_size=7, min_small_files=7,
        max_deleted_rows_ratio=0.5, checkpoint_after_commits=7, min_dead_bytes=7, vacuum_after_days=7,
        vacuum_mode=VacuumMode.LITE, parallelism=7, max_seconds=7, max_bytes=7, conflict_retries=0,
    )  # fmt: skip
    assert request.table == "s3://lake/a"
    assert MaintainRequest.from_json(request.to_json()) == request
    assert rendered_request(tables='["/a", "/b"]', native=native).tables == ("/a", "/b")


@pytest.mark.parametrize(
    ("parameters", "error", "problem"),
    [
        ({"tables": ["/a"], "pattern": "/lake/*"}, InvalidRequestError, "has tables and pattern"),
        ({"pattern": "/lake/*", "catalog_schema": "a"}, InvalidRequestError, "has pattern and catalog_schema"),
        ({"tables": []}, InvalidRequestError, "has none"),
        ({"catalog_schema": ""}, InvalidRequestError, "catalog_schema is '', which is not the name of a schema"),
        ({"catalog_schema": "a..b"}, InvalidRequestError, "is not the name of a schema"),
        ({"catalog_schema": "a.`b"}, InvalidRequestError, "is not the name of a schema"),
        ({"catalog_schema": "s3://lake/a b"}, InvalidRequestError, "is not the name of a schema"),
        ({"tables": "/lake/a"}, InvalidRequestError, "not a list"),
        ({"tables": ["/lake/a@v3"]}, InvalidRequestError, "names a version"),
        ({"tables": ["s3:/"]}, InvalidTableAddressError, "no bucket"),
        ({"tables": ["/lake/a", "/lake/../etc"]}, InvalidTableAddressError, r"contains '\.\.'"),
        ({"pattern": "/lake/../*"}, InvalidTableAddressError, r"contains '\.\.'"),
        ({"pattern": "s3://*/orders"}, InvalidRequestError, "wildcard in its scheme, bucket or host"),
        ({"optimize": False, "checkpoint": False, "vacuum": False}, InvalidRequestError, "all False"),
        ({"parallelism": 0}, InvalidRequestError, "parallelism is 0, which is out of range"),
        ({"parallelism": 65}, InvalidRequestError, "from 1 to 64"),
        ({"min_small_files": 0}, InvalidRequestError, "min_small_files is 0"),
        ({"max_deleted_rows_ratio": 1.5}, InvalidRequestError, "from 0 to 1"),
        ({"max_seconds": -1}, InvalidRequestError, "max_seconds is -1"),
        ({"vacuum_mode": "fast"}, InvalidRequestError, "vacuum_mode is 'fast'"),
        ({"partition_events": True}, InvalidRequestError, "changes no rows of partitions"),
        ({"on_rerun": "replace"}, InvalidRequestError, "applies only to an append"),
    ],
)
def test_an_invalid_parameter_is_rejected_when_the_dag_is_parsed(parameters, error, problem):
    default_pattern = {} if {"tables", "pattern", "catalog_schema"} & parameters.keys() else {"pattern": "/lake/*"}
    with pytest.raises(error, match=problem):
        DeltaLakeMaintenanceOperator(task_id="maintain", **default_pattern, **parameters)


def test_templates_are_checked_when_the_task_runs():
    with pytest.raises(InvalidTableAddressError, match=r"contains '\.\.'"):
        rendered_request(tables=["/lake/a", "/lake/{{ name }}"], rendered_with={"name": "../x"})
    with pytest.raises(InvalidRequestError, match="names a version"):
        rendered_request(tables=["{{ name }}"], rendered_with={"name": "/lake/a@v3"})
    with pytest.raises(InvalidRequestError, match="pattern"):
        rendered_request(pattern="{{ name }}", rendered_with={"name": ""})


def test_the_preflight_checks_the_addresses_and_a_cleared_task_maintains_again():
    task = operator(tables=["/lake/a", "s3://lake/b"])
    assert task.addresses(task._request()) == ["/lake/a", "s3://lake/b"]
    assert operator(pattern="s3://lake/x/*/y").addresses(MaintainRequest(pattern="s3://lake/x/*/y")) == ["s3://lake/x"]
    assert task.default_on_rerun(task._request()) is OnRerun.WRITE


ROWS = (
    '({"table": "/lake/bad", "status": "failed", "error": {"kind": "CorruptLogError", "message": "x"}},'
    ' {"table": "/lake/good", "status": "changed", "after": {"version": 7}},'
    ' {"table": "/lake/idle", "status": "healthy"})'
)
REPORT = f"""
from deltalite.markers import result_markers, error_marker
from deltalite.results import JobError, OperationResult
result = OperationResult(table="/lake/*", operation="MAINTAIN", version=None, read_version=None, committed=True,
                         skipped=False, app_id="a", txn_version=0, timestamp=5, metrics={{"numTables": 3}},
                         tables={ROWS})
result = OperationResult.from_dict({{**result.as_dict(), "tables": [*result.tables, *(
    {{"table": f"/lake/{{n}}", "status": "healthy", "before": {{"size": n * n * 7919}}}} for n in range(200))]}})
markers = result_markers(result)
assert len(markers) > 1
"""


@pytest.fixture
def pushed_values(context):
    """The XComs that a task stores itself."""
    values = {}
    context["ti"].xcom_push = lambda key, value: values.update({key: value})
    return values


def test_a_warning_says_that_tables_without_a_row_send_no_event_of_the_alias(
    spark_submit, context, pushed_values, capsys
):
    report = REPORT.replace('"numTables": 3', '"numTables": 205, "numOmittedRows": 2')
    spark_submit.set_script(f"{report}\nprint(*markers, sep='\\n')")
    operator(outlets=[Asset("lake", uri="x://lake")]).execute(context)
    assert "the result omits" not in capsys.readouterr().out
    context["outlet_events"].events["tables"] = SimpleNamespace(add=lambda table, extra: None)
    operator(outlets=[AssetAlias("tables")]).execute(context)
    assert "the 203 tables in the result only: the result omits 2 tables" in capsys.readouterr().out


def test_the_result_has_a_row_for_each_table_and_changed_tables_have_events(spark_submit, context, pushed_values):
    spark_submit.set_script(f"{REPORT}\nprint(*markers, sep='\\n')")
    task = operator(outlets=[Asset("lake", uri="x://lake"), AssetAlias("tables")])
    events = []
    alias_events = SimpleNamespace(add=lambda table, extra: events.append((table, extra["status"])))
    context["outlet_events"].events["tables"] = alias_events
    result = task.execute(context)
    assert result["metrics"] == {"numTables": 3} and result["version"] is None
    assert [row["table"] for row in result["tables"][:3]] == ["/lake/bad", "/lake/good", "/lake/idle"]
    assert len(result["tables"]) == 203
    assert events == [(delta_asset("/lake/good"), "changed")]
    assert "tables" not in context["outlet_events"].events["lake"].extra
    assert pushed_values == {}


@pytest.mark.parametrize(
    ("name", "exit_code", "expected"),
    [("MaintenanceError", 100, AirflowFailException), ("MaintenanceIncompleteError", 101, AirflowException)],
)
def test_failed_tables_fail_the_task_which_still_stores_its_rows(
    spark_submit, context, pushed_values, name, exit_code, expected
):
    spark_submit.set_script(
        f"{REPORT}\nprint(*markers, sep='\\n')\nprint(error_marker('{name}', '1 of 3 tables failed: /lake/bad.'))\n"
        f"sys.exit({exit_code})"
    )
    with pytest.raises(expected, match=f"{name}: 1 of 3 tables failed") as error:
        operator().execute(context)
    assert (type(error.value) is AirflowFailException) is (expected is AirflowFailException)
    assert pushed_values["return_value"]["tables"][0]["status"] == "failed"
    assert "Version:" not in str(error.value), "the message names the failed tables instead of one table"


def test_a_reported_error_fails_the_task_even_if_the_exit_code_is_unknown():
    task = operator()
    log = task.open_log(task._request())
    result = OperationResult.from_dict(
        {"table": "/lake/*", "operation": "MAINTAIN", "version": None, "read_version": None, "committed": True,
         "skipped": False, "app_id": "a", "txn_version": 0, "timestamp": 5}
    )  # fmt: skip
    error = JobError(kind="MaintenanceError", message="1 of 3 tables failed.")
    job = SimpleNamespace(result=result, error=error, exit_code_of_job=lambda _error: None)
    with pytest.raises(AirflowFailException, match="MaintenanceError: 1 of 3 tables failed"):
        after_failure(job, AirflowException("failed"), partial(log.find_result_after_job, job, failed=True))
    assert log.find_result_after_job(job, failed=False) is result


def test_a_job_that_succeeded_without_a_report_does_not_fail_the_task(spark_submit, context, pushed_values, capsys):
    spark_submit.set_script("")
    result = operator().execute(context)
    assert (result["operation"], "tables" in result) == ("MAINTAIN", False)
    assert "its report did not reach this worker" in capsys.readouterr().out
    assert operator(dry_run=True).execute(context)["operation"] == "MAINTAIN DRY RUN"
    spark_submit.set_script("sys.exit(1)")
    with pytest.raises(AirflowException) as error:
        operator().execute(context)
    assert not isinstance(error.value, AirflowFailException), "Airflow retries a job that failed without an error"
    assert pushed_values == {}


def test_lineage_names_the_tables_of_the_request_and_then_the_changed_ones():
    request = MaintainRequest(tables=("/lake/a", "/lake/b"))
    result = OperationResult(
        table="/lake/a", operation="MAINTAIN", version=None, read_version=None, committed=True, skipped=False,
        app_id="a", txn_version=0, timestamp=5, tables=(
            {"table": "/lake/a", "status": "changed", "after": {"version": 7}},
            {"table": "/lake/b", "status": "healthy"},
        ),
    )  # fmt: skip
    assert [edge.address for edge in edges_of(request).outputs] == ["/lake/a", "/lake/b"]
    assert [(edge.address, edge.version) for edge in edges_of(request, result).outputs] == [("/lake/a", 7)]
    dry_run = MaintainRequest(tables=("/lake/a",), dry_run=True)
    assert [edge.address for edge in edges_of(dry_run).inputs] == ["/lake/a"]
    assert edges_of(MaintainRequest(pattern="/lake/*")).outputs == ()


def test_a_dag_with_a_maintenance_is_serialized():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        DeltaLakeMaintenanceOperator(task_id="maintain", pattern="/lake/*", dry_run=True, parallelism=8)
    task = scheduler_copy(dag).get_task("maintain")
    assert (task.pattern, task.dry_run_only, task.parallelism) == ("/lake/*", True, 8)
