"""The delete, update and merge operators: the request for the job, and parameters that are rejected before the job."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, Asset, BaseOperator, task

from airflow_provider_deltalite.operators import delta as operators
from airflow_provider_deltalite.operators._sql import SqlTemplatedOperator
from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaUpdateOperator
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests import (
    CommitRequest,
    DeleteRequest,
    MergeClause,
    MergeRequest,
    OnRerun,
    Source,
    UpdateRequest,
)
from tests.support.airflow_versions import stored

CSV = {"format": "csv", "path": "/landing"}
LEAST = {
    DeltaDeleteOperator: {"condition": "id = 1"},
    DeltaUpdateOperator: {"set": {"a": "1"}},
    DeltaMergeOperator: {"source": CSV, "on": "target.id = source.id", "when_matched": [{"update": "*"}]},
}
ALL = pytest.mark.parametrize("operator", LEAST, ids=lambda operator: operator.job)
BOTH = pytest.mark.parametrize("native", [False, True], ids=["text", "native"])


def rendered_request(
    operator, *, native: bool = False, rendered_with: dict | None = None, **parameters
) -> CommitRequest:
    """Render the templates of an operator in a DAG, and return its request."""
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        made = operator(**{"task_id": "change", "table": "/lake/t", **LEAST[operator], **parameters})
    made.render_template_fields(rendered_with or {})
    return made._request()


def test_the_required_parameters_are_enough():
    assert rendered_request(DeltaDeleteOperator) == DeleteRequest(table="/lake/t", condition="id = 1")
    assert rendered_request(DeltaUpdateOperator) == UpdateRequest(table="/lake/t", set={"a": "1"})
    assert rendered_request(DeltaMergeOperator) == MergeRequest(
        table="/lake/t",
        sources={"source": Source(format="csv", path="/landing")},
        on="target.id = source.id",
        when_matched=(MergeClause(update="*"),),
    )


def test_a_delete_of_every_row_is_confirmed_before_a_job_is_submitted():
    with pytest.raises(InvalidRequestError, match=r"has no condition.*delete every row.*confirm_all_rows=True"):
        rendered_request(DeltaDeleteOperator, condition=None)
    confirmed = rendered_request(DeltaDeleteOperator, condition=None, confirm_all_rows="{{ 1 == 1 }}")
    assert confirmed == DeleteRequest(table="/lake/t", confirm_all_rows=True)


@ALL
def test_the_parameters_of_all_commits_reach_the_request(operator):
    common = {"user_metadata": "why", "conflict_retries": "0", "conflict_seconds": 5, "single_writer": "true"}
    request = rendered_request(operator, **common)
    assert (request.user_metadata, request.conflict_retries, request.conflict_seconds) == ("why", 0, 5)
    assert request.single_writer is True


@BOTH
def test_every_parameter_of_a_merge_is_rendered(native):
    request = rendered_request(
        DeltaMergeOperator,
        native=native,
        rendered_with={"ds": "2026-01-01", "version": 7, "limit": 3, "flag": True},
        source=None,
        sources={
            "a": {"format": "delta", "path": "/lake/{{ ds }}", "version_as_of": "{{ version }}"},
            "b": {"format": "orc"},
        },
        query="SELECT * FROM a JOIN b USING (id) WHERE day = '{{ ds }}'",
        on="target.id = source.id AND target.day = DATE'{{ ds }}'",
        when_matched=[
            {"delete": True, "condition": "source.amount > {{ limit }}"},
            {"delete": "{{ flag }}", "condition": "source.gone"},
            {"update": {"day": "DATE'{{ ds }}'", "a.b": "{{ limit }}", "name": "'closed'", "x": "1e3"}},
        ],
        when_not_matched=({"insert": "*"},),
        when_not_matched_by_source=[{"update": {"stale": "true"}, "condition": "target.day < DATE'{{ ds }}'"}],
        merge_schema="{{ flag }}",
    )
    assert request == MergeRequest(
        table="/lake/t",
        sources={"a": Source(format="delta", path="/lake/2026-01-01", version_as_of=7), "b": Source(format="orc")},
        query="SELECT * FROM a JOIN b USING (id) WHERE day = '2026-01-01'",
        on="target.id = source.id AND target.day = DATE'2026-01-01'",
        when_matched=(
            MergeClause(delete=True, condition="source.amount > 3"),
            MergeClause(delete=True, condition="source.gone"),
            MergeClause(update={"day": "DATE'2026-01-01'", "a.b": "3", "name": "'closed'", "x": "1e3"}),
        ),
        when_not_matched=(MergeClause(insert="*"),),
        when_not_matched_by_source=(MergeClause(update={"stale": "true"}, condition="target.day < DATE'2026-01-01'"),),
        merge_schema=True,
    )


LITERALS = {"a": "'closed'", "b": "1e3", "c": "1.10", "d": "NULL", "e": "'a' 'b'", "f": "true", "g": "'{{ word }}'"}


@BOTH
def test_sql_stays_the_text_that_its_author_wrote(native):
    """Jinja's native rendering reads `'closed'` as a Python literal, and removes its quotes."""
    request = rendered_request(
        DeltaUpdateOperator, native=native, set=LITERALS, condition="1e3", rendered_with={"word": "it"}
    )
    assert request.set == {**LITERALS, "g": "'it'"}
    assert request.condition == "1e3"
    merged = rendered_request(
        DeltaMergeOperator,
        native=native,
        on="'a'",
        query="'b'",
        when_matched=[{"update": LITERALS}],
        rendered_with={"word": "it"},
    )
    assert (merged.on, merged.query) == ("'a'", "'b'")
    assert merged.when_matched[0].update == request.set


CLAUSES = [{"delete": True, "condition": "source.x = 'it''s'"}, {"update": {"a": "'closed'", "b": 1}}]


@pytest.mark.parametrize(
    ("native", "template"),
    [(True, "{{ clauses }}"), (True, "{{ clauses | tojson }}"), (False, "{{ clauses | tojson }}")],
)
def test_one_template_may_render_a_structure(native, template):
    expected = (
        MergeClause(delete=True, condition="source.x = 'it''s'"),
        MergeClause(update={"a": "'closed'", "b": "1"}),
    )
    assert (
        rendered_request(
            DeltaMergeOperator, native=native, when_matched=template, rendered_with={"clauses": CLAUSES}
        ).when_matched
        == expected
    )
    one = rendered_request(
        DeltaMergeOperator, native=native, when_matched=["{{ one | tojson }}"], rendered_with={"one": CLAUSES[1]}
    )
    assert one.when_matched == expected[1:]
    values = template.replace("clauses", "clauses[1]['update']")
    assert rendered_request(DeltaUpdateOperator, native=native, set=values, rendered_with={"clauses": CLAUSES}).set == {
        "a": "'closed'",
        "b": "1",
    }


@BOTH
@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (DeltaDeleteOperator, {"condition": "{{ nothing }}"}, "condition is empty"),
        (DeltaUpdateOperator, {"condition": "{{ nothing }}"}, "condition is empty"),
        (DeltaUpdateOperator, {"set": {"a": "{{ nothing }}"}}, "set has 'a': ''"),
        (DeltaMergeOperator, {"on": "{{ nothing }}"}, "`on` is empty"),
        (DeltaMergeOperator, {"query": "{{ nothing }}"}, "`query` is empty"),
        (
            DeltaMergeOperator,
            {"when_matched": [{"delete": True, "condition": "{{ nothing }}"}]},
            r"when_matched\[0\]: condition is empty",
        ),
    ],
)
def test_a_parameter_that_is_rendered_as_empty_never_means_every_row(native, operator, parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_request(operator, native=native, rendered_with={"nothing": ""}, **parameters)


class Resolved:
    """A return value of another task, as Airflow resolves it."""

    def __init__(self, value):
        self.value = value

    def resolve(self, context):
        return self.value


@BOTH
@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (
            DeltaDeleteOperator,
            {"condition": Resolved(None)},
            "condition was given, but is empty after rendering",
        ),
        (
            DeltaUpdateOperator,
            {"condition": Resolved(None)},
            "condition was given, but is empty after rendering",
        ),
        (
            DeltaMergeOperator,
            {"when_not_matched": Resolved(None)},
            "when_not_matched was given, but is empty after rendering",
        ),
        (DeltaMergeOperator, {"query": Resolved(None)}, "query was given, but is empty after rendering"),
        (DeltaUpdateOperator, {"set": {"a": Resolved(None)}}, "set.a is None. .*'NULL'"),
        (
            DeltaMergeOperator,
            {"when_matched": [{"delete": True, "condition": Resolved(None)}]},
            r"when_matched\[0\].condition is None",
        ),
    ],
)
def test_a_missing_return_value_never_means_every_row(native, operator, parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_request(operator, native=native, **parameters)


def test_a_return_value_of_another_task_reaches_the_request():
    assert rendered_request(DeltaDeleteOperator, condition=Resolved("id = 1")).condition == "id = 1"
    clauses = Resolved([{"insert": {"a": "'x'"}}])
    assert rendered_request(DeltaMergeOperator, when_not_matched=clauses).when_not_matched == (
        MergeClause(insert={"a": "'x'"}),
    )


def test_a_second_run_of_a_task_forgets_parameters_that_were_empty():
    made = DeltaDeleteOperator(task_id="t", table="/t", condition=Resolved(None))
    made.render_template_fields({})
    made.condition = "id = 1"
    made.render_template_fields({})
    assert made._request().condition == "id = 1"


@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (DeltaDeleteOperator, {"condition": " "}, "condition is empty"),
        (DeltaDeleteOperator, {"condition": {"id": 1}}, "condition is a Python dict, but must be a text with SQL"),
        (DeltaMergeOperator, {"on": ["id"]}, "on is a Python list"),
        (DeltaDeleteOperator, {"table": "/lake/t@v3"}, "names a version, and only the newest can be written"),
        (DeltaDeleteOperator, {"application_args": ["x"]}, "application_args"),
        (DeltaUpdateOperator, {"set": {}}, "set names no column"),
        (DeltaUpdateOperator, {"set": "a = 1"}, "set is 'a = 1', not a mapping"),
        (DeltaUpdateOperator, {"set": "*"}, r"set is '\*', not a mapping"),
        (DeltaUpdateOperator, {"set": ["a"]}, "set is .*, not a mapping"),
        (DeltaUpdateOperator, {"set": {"day": date(2026, 1, 31)}}, "set.day is a Python date"),
        (DeltaMergeOperator, {"source": None}, "has neither"),
        (DeltaMergeOperator, {"sources": {"a": CSV}}, "has both"),
        (DeltaMergeOperator, {"when_matched": None}, "no clause, so it would do nothing"),
        (DeltaMergeOperator, {"when_matched": []}, "no clause, so it would do nothing"),
        (DeltaMergeOperator, {"when_matched": {"update": "*"}}, "when_matched is .*, not a list"),
        (DeltaMergeOperator, {"when_matched": "update *"}, "when_matched is 'update .*', not a list. .*tojson"),
        (DeltaMergeOperator, {"when_matched": ["update *"]}, r"when_matched\[0\] is 'update \*', not a mapping"),
        (
            DeltaMergeOperator,
            {"when_matched": [{"upsert": "*"}]},
            r"when_matched\[0\] has the unknown key 'upsert'. Known keys are condition, update, insert, delete",
        ),
        (
            DeltaMergeOperator,
            {"when_matched": [{"delete": True, "condition": "x"}, {"update": "a = 1"}]},
            r"when_matched\[1\]: update is 'a = 1'",
        ),
        (
            DeltaMergeOperator,
            {"when_matched": [{"update": {"a": {1}}}]},
            r"when_matched\[0\].update.a is .*, not a text",
        ),
        (DeltaMergeOperator, {"when_matched": [{"delete": "maybe"}]}, r"when_matched\[0\].delete is 'maybe', not true"),
        (DeltaMergeOperator, {"when_matched": [{"delete": False}]}, r"when_matched\[0\]: The clause has no action"),
        (
            DeltaMergeOperator,
            {"when_matched": [{"update": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}]},
            r"when_matched\[0\].update.at is a Python datetime",
        ),
        (
            DeltaMergeOperator,
            {"when_not_matched": [{"delete": True}]},
            r"when_not_matched\[0\] is delete, and only insert",
        ),
    ],
)
def test_an_invalid_parameter_is_rejected_by_name(operator, parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_request(operator, **parameters)


@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        (DeltaDeleteOperator, {"table": "s3:/"}),
        (DeltaUpdateOperator, {"table": " /lake "}),
        (DeltaMergeOperator, {"table": "s3:///x"}),
        (DeltaMergeOperator, {"source": {"format": "Delta", "path": "s3:///x"}}),
    ],
)
def test_a_malformed_address_is_rejected_before_a_job_is_submitted(operator, parameters):
    with pytest.raises(InvalidTableAddressError):
        rendered_request(operator, **parameters)


@ALL
def test_a_cleared_task_writes_again_unless_on_rerun_says_skip(operator, context):
    for policy, expected, version in [({}, OnRerun.WRITE, 1), ({"on_rerun": "skip"}, OnRerun.SKIP, 0)]:
        change = operator(task_id="change", table="/t", retries=2, **{**LEAST[operator], **policy})
        context["ti"].max_tries = 3  # two retries, and one try before the clear
        identity = change._identity(change._request(), context)
        assert (identity.on_rerun, identity.txn_version) == (expected, version)


SAYS_ITS_RESULT = """
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
    spark_submit.does(SAYS_ITS_RESULT.format(kept=str(kept), table=str(table), operation=operator.job.upper()))
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


def test_every_operator_has_one_public_module():
    for name in operators.__all__:
        assert getattr(operators, name).__name__ == name
    assert {operator.__name__ for operator in LEAST} <= set(operators.__all__)


def test_the_private_methods_of_templating_that_are_overridden_still_exist():
    for name in ("_do_render_template_fields", "_render"):
        assert name in vars(SqlTemplatedOperator) and callable(getattr(BaseOperator, name))


def test_the_old_name_of_merge_schema_is_deprecated():
    with pytest.warns(AirflowProviderDeprecationWarning, match="Use `merge_schema`"):
        request = rendered_request(DeltaMergeOperator, schema_evolution="true")
    assert request.merge_schema is True


def test_a_merge_may_create_its_table():
    inserts = [{"insert": "*"}]
    request = rendered_request(
        DeltaMergeOperator,
        when_not_matched=inserts,
        create_if_missing="true",
        partition_by=["{{ 'day' }}"],
        properties={"delta.appendOnly": "false"},
    )
    assert (request.create_if_missing, request.partition_by) == (True, ("day",))
    assert request.properties == {"delta.appendOnly": "false"}
    with pytest.raises(InvalidRequestError, match="no clause inserts a row"):
        rendered_request(DeltaMergeOperator, create_if_missing=True)
    with pytest.raises(InvalidRequestError, match="need create_if_missing"):
        rendered_request(DeltaMergeOperator, partition_by=["day"])


@ALL
def test_a_missing_table_is_rejected_before_a_job_is_submitted(operator, spark_submit, tmp_path, context):
    spark_submit.does("raise SystemExit('a job was submitted')")
    made = operator(**{"task_id": "t", "table": str(tmp_path / "none"), **LEAST[operator]})
    with pytest.raises(AirflowFailException, match=r"TableNotFoundError: .* no job was submitted"):
        made.execute(context)
