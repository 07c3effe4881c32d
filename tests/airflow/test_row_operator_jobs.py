"""The tasks of the delete, update and merge operators: their jobs, the runs that they skip, and their results."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, Asset, task

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator
from deltalite.requests import MergeClause, OnRerun
from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.airflow.row_operators import EACH_OPERATOR, REQUIRED_PARAMETERS
from tests.support.airflow_versions import scheduler_copy


@EACH_OPERATOR
def test_a_cleared_task_writes_again_unless_on_rerun_is_skip(operator, context):
    for parameters, on_rerun, txn_version in [({}, OnRerun.WRITE, 1), ({"on_rerun": "skip"}, OnRerun.SKIP, 0)]:
        change = operator(task_id="change", table="/t", retries=2, **{**REQUIRED_PARAMETERS[operator], **parameters})
        context["ti"].max_tries = 3  # two retries, and one attempt before the clear
        identity = change._identity(change._request(), context)
        assert (identity.on_rerun, identity.txn_version) == (on_rerun, txn_version)


APP_ID = "airflow/sales/load/-1/scheduled__2026-01-01T00:00:00+00:00"
COPY_REQUEST_AND_PRINT_RESULT = """
import shutil; shutil.copy(sys.argv[-1], {request_copy!r})
from deltalite.markers import result_marker
from deltalite.results import OperationResult
print(result_marker(OperationResult(
    table={table!r}, operation={operation!r}, version=4, read_version=3, committed=True, skipped=False,
    app_id={app_id!r}, txn_version=0, timestamp=5,
    metrics={{f"numTargetRowsNotMatchedBySource{{n}}": n for n in range(25)}},
)))
"""


@EACH_OPERATOR
def test_the_job_gets_the_request_with_the_identity_of_the_run_and_its_result_is_the_xcom(
    operator, table, spark_submit, context, tmp_path
):
    table.create()
    request_copy = tmp_path / "request.json"
    spark_submit.set_script(
        COPY_REQUEST_AND_PRINT_RESULT.format(
            request_copy=str(request_copy), table=str(table), operation=operator.job.upper(), app_id=APP_ID
        )
    )
    asset = Asset("orders")
    change = operator(task_id="change", table=str(table), outlets=[asset], **REQUIRED_PARAMETERS[operator])
    result = change.execute(context)
    assert spark_submit.argv[-2].endswith(f"/deltalite/jobs/{operator.job}.py")
    request = operator.request_class.from_json(request_copy.read_text())
    assert request.identity.app_id == APP_ID
    assert replace(request, identity=None) == change._request()
    assert (result["operation"], result["version"], result["skipped"]) == (operator.job.upper(), 4, False)
    assert len(result["metrics"]) == 25
    assert context["outlet_events"][asset].extra == result == json.loads(json.dumps(result))


@EACH_OPERATOR
def test_a_run_that_committed_without_changing_a_row_is_skipped_without_a_process(
    operator, table, spark_submit, context
):
    table.create()
    table.commit(1, table.txn(APP_ID), operation=operator.job.upper())
    change = operator(task_id="change", table=str(table), retries=2, **REQUIRED_PARAMETERS[operator])
    result = change.execute(context)
    assert (result["operation"], result["version"], result["skipped"]) == (operator.job.upper(), 1, True)
    assert not spark_submit.was_called


@EACH_OPERATOR
def test_a_cleared_task_submits_the_job_although_an_earlier_attempt_has_committed(
    operator, table, spark_submit, context
):
    """The stand-in for `spark-submit` commits nothing, so the task fails after the job."""
    table.create()
    table.commit(1, table.txn(APP_ID), operation=operator.job.upper())
    context["ti"].max_tries = 3  # two retries, and one attempt before the clear
    change = operator(task_id="change", table=str(table), retries=2, **REQUIRED_PARAMETERS[operator])
    with pytest.raises(AirflowException, match="does not show what this run did"):
        change.execute(context)
    assert spark_submit.was_called


@EACH_OPERATOR
@pytest.mark.parametrize(
    ("invalid_parameter", "message"),
    [({"table": "/t@v1"}, "names a version"), ({"on_rerun": "replace"}, "applies only to an append")],
)
def test_a_bad_parameter_fails_the_task_at_once_and_nothing_is_submitted(
    operator, invalid_parameter, message, spark_submit, context
):
    change = operator(**{"task_id": "change", "table": "/t", **REQUIRED_PARAMETERS[operator]})
    for name, value in invalid_parameter.items():  # Rendering a template sets the attribute in the same way.
        setattr(change, name, value)
    with pytest.raises(AirflowFailException, match=message):
        change.execute(context)
    assert not spark_submit.was_called


@EACH_OPERATOR
def test_a_missing_table_is_rejected_before_a_job_is_submitted(operator, spark_submit, tmp_path, context):
    spark_submit.set_script("raise SystemExit('a job was submitted')")
    change = operator(**{"task_id": "t", "table": str(tmp_path / "none"), **REQUIRED_PARAMETERS[operator]})
    with pytest.raises(AirflowFailException, match=r"TableNotFoundError: .* no job was submitted"):
        change.execute(context)


@EACH_OPERATOR
def test_a_task_can_be_mapped_and_serialized_and_its_request_can_be_pickled(operator, context):
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        mapped = operator.partial(task_id="change", **REQUIRED_PARAMETERS[operator]).expand(table=["/a", "/b"])
        operator(task_id="plain", table="/t", **REQUIRED_PARAMETERS[operator])
    assert mapped.unmap({"table": "/b"})._request().table == "/b"
    serialized = scheduler_copy(dag)
    assert set(serialized.task_ids) == {"change", "plain"} and serialized.get_task("plain").table == "/t"
    request = mapped.unmap({"table": "/b"})._request()
    assert pickle.loads(pickle.dumps(request)) == request


@TEXT_AND_NATIVE
def test_a_merge_is_mapped_over_partitions_by_its_condition_and_source(native):
    days = ["2026-01-01", "2026-01-02"]
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        mapped = DeltaMergeOperator.partial(
            task_id="merge", table="/lake/{{ name }}", when_matched=[{"update": {"a": "'x'"}}]
        ).expand_kwargs(
            [
                {
                    "source": {"format": "parquet", "path": f"/in/{day}"},
                    "on": f"target.id = source.id AND target.day = DATE'{day}'",
                }
                for day in days
            ]
        )
    for index, day in enumerate(days):
        context = {"ti": None, "name": "orders", "params": {}}
        merge = mapped.unmap(mapped.expand_input.value[index])
        merge._do_render_template_fields(
            parent=merge,
            template_fields=mapped.template_fields,
            context=context,
            jinja_env=mapped.get_template_env(),
            seen_oids=set(),
        )
        request = merge._request()
        assert (request.table, request.sources["source"].path) == ("/lake/orders", f"/in/{day}")
        assert request.on == f"target.id = source.id AND target.day = DATE'{day}'"
        assert request.when_matched == (MergeClause(update={"a": "'x'"}),)


def test_a_parameter_from_another_task_makes_that_task_an_upstream():
    @task
    def condition():
        return "id = 1"

    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        change = DeltaDeleteOperator(task_id="change", table="/t", condition=condition())
    assert change.upstream_task_ids == {"condition"}
