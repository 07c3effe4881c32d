"""The tasks of the delete, update and merge operators: what they submit, skip and return."""

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
from tests.airflow.row_operators import ALL, BOTH, LEAST
from tests.support.airflow_versions import stored


@ALL
def test_a_cleared_task_writes_again_unless_on_rerun_is_skip(operator, context):
    for policy, expected, version in [({}, OnRerun.WRITE, 1), ({"on_rerun": "skip"}, OnRerun.SKIP, 0)]:
        change = operator(task_id="change", table="/t", retries=2, **{**LEAST[operator], **policy})
        context["ti"].max_tries = 3  # two retries, and one try before the clear
        identity = change._identity(change._request(), context)
        assert (identity.on_rerun, identity.txn_version) == (expected, version)


PRINTS_ITS_RESULT = """
import shutil; shutil.copy(sys.argv[-1], {kept!r})
from deltalite.results import OperationResult, result_marker
print(result_marker(OperationResult(
    table={table!r}, operation={operation!r}, version=4, read_version=3, committed=True, skipped=False,
    app_id="airflow/sales/load/-1/scheduled__2026-01-01T00:00:00+00:00", txn_version=0, timestamp=5,
    metrics={{f"numTargetRowsNotMatchedBySource{{n}}": n for n in range(25)}},
)))
"""


@ALL
def test_the_job_gets_the_request_with_the_identity_of_the_run_and_its_result_is_the_xcom(
    operator, table, spark_submit, context, tmp_path
):
    table.create()
    kept = tmp_path / "kept"
    spark_submit.does(PRINTS_ITS_RESULT.format(kept=str(kept), table=str(table), operation=operator.job.upper()))
    asset = Asset("orders")
    change = operator(task_id="change", table=str(table), outlets=[asset], **LEAST[operator])
    returned = change.execute(context)
    assert spark_submit.argv[-2].endswith(f"/deltalite/jobs/{operator.job}.py")
    request = operator.request_class.from_json(kept.read_text())
    assert request.identity.app_id == "airflow/sales/load/-1/scheduled__2026-01-01T00:00:00+00:00"
    assert replace(request, identity=None) == change._request()
    assert (returned["operation"], returned["version"], returned["skipped"]) == (operator.job.upper(), 4, False)
    assert len(returned["metrics"]) == 25
    assert context["outlet_events"][asset].extra == returned == json.loads(json.dumps(returned))


@ALL
def test_a_run_that_committed_without_changing_a_row_is_skipped_without_a_process(
    operator, table, spark_submit, context
):
    table.create()
    table.commit(
        1,
        table.txn("airflow/sales/load/-1/scheduled__2026-01-01T00:00:00+00:00"),
        operation=operator.job.upper(),
    )
    change = operator(task_id="change", table=str(table), retries=2, **LEAST[operator])
    returned = change.execute(context)
    assert (returned["operation"], returned["version"], returned["skipped"]) == (operator.job.upper(), 1, True)
    assert not spark_submit.was_called
    context["ti"].max_tries += 1  # cleared
    with pytest.raises(AirflowException, match="does not show what this run did"):
        change.execute(context)
    assert spark_submit.was_called


@ALL
@pytest.mark.parametrize(
    ("change", "message"),
    [({"table": "/t@v1"}, "names a version"), ({"on_rerun": "replace"}, "removes the files of an earlier append")],
)
def test_a_bad_parameter_fails_the_task_at_once_and_nothing_is_submitted(
    operator, change, message, spark_submit, context
):
    task = operator(**{"task_id": "change", "table": "/t", **LEAST[operator]})
    for name, value in change.items():  # as templates give it
        setattr(task, name, value)
    with pytest.raises(AirflowFailException, match=message):
        task.execute(context)
    assert not spark_submit.was_called


@ALL
def test_a_missing_table_is_rejected_before_a_job_is_submitted(operator, spark_submit, tmp_path, context):
    spark_submit.does("raise SystemExit('a job was submitted')")
    made = operator(**{"task_id": "t", "table": str(tmp_path / "none"), **LEAST[operator]})
    with pytest.raises(AirflowFailException, match=r"TableNotFoundError: .* no job was submitted"):
        made.execute(context)


@ALL
def test_a_task_can_be_mapped_serialized_and_pickled(operator, context):
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        mapped = operator.partial(task_id="change", **LEAST[operator]).expand(table=["/a", "/b"])
        operator(task_id="plain", table="/t", **LEAST[operator])
    assert mapped.unmap({"table": "/b"})._request().table == "/b"
    kept = stored(dag)
    assert set(kept.task_ids) == {"change", "plain"}
    assert (
        pickle.loads(pickle.dumps(mapped.unmap({"table": "/b"})._request())) == mapped.unmap({"table": "/b"})._request()
    )


@BOTH
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
    for at, day in enumerate(days):
        context = {"ti": None, "name": "orders", "params": {}}
        one = mapped.unmap(mapped.expand_input.value[at])
        one._do_render_template_fields(
            parent=one,
            template_fields=mapped.template_fields,
            context=context,
            jinja_env=mapped.get_template_env(),
            seen_oids=set(),
        )
        request = one._request()
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
