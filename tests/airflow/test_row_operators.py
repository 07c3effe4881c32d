"""The delete, update and merge operators: their requests, and parameters that are rejected before the job starts."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.sdk import BaseOperator

from airflow_provider_deltalite.operators import delta as operators
from airflow_provider_deltalite.operators._sql import SqlTemplatedOperator
from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaUpdateOperator
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests import DeleteRequest, MergeClause, MergeRequest, Source, UpdateRequest
from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.airflow.row_operators import CSV_SOURCE, EACH_OPERATOR, REQUIRED_PARAMETERS, rendered_request


def test_the_required_parameters_are_enough():
    assert rendered_request(DeltaDeleteOperator) == DeleteRequest(table="/lake/t", condition="id = 1")
    assert rendered_request(DeltaUpdateOperator) == UpdateRequest(table="/lake/t", set={"a": "1"})
    assert rendered_request(DeltaMergeOperator) == MergeRequest(
        table="/lake/t",
        sources={"source": Source(format="csv", path="/landing")},
        on="target.id = source.id",
        when_matched=(MergeClause(update="*"),),
    )


def test_a_delete_of_every_row_needs_a_confirmation():
    with pytest.raises(InvalidRequestError, match=r"has no condition.*delete every row.*confirm_all_rows=True"):
        rendered_request(DeltaDeleteOperator, condition=None)
    confirmed = rendered_request(DeltaDeleteOperator, condition=None, confirm_all_rows="{{ 1 == 1 }}")
    assert confirmed == DeleteRequest(table="/lake/t", confirm_all_rows=True)


@EACH_OPERATOR
def test_the_common_parameters_reach_the_request(operator):
    common = {"user_metadata": "why", "conflict_retries": "0", "conflict_seconds": 5, "single_writer": "true"}
    request = rendered_request(operator, **common)
    assert (request.user_metadata, request.conflict_retries, request.conflict_seconds) == ("why", 0, 5)
    assert request.single_writer is True


@TEXT_AND_NATIVE
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


@TEXT_AND_NATIVE
def test_sql_stays_the_text_that_its_author_wrote(native):
    """Jinja's native rendering reads `'closed'` as a Python literal, and removes its quotes."""
    request = rendered_request(
        DeltaUpdateOperator, native=native, set=LITERALS, condition="1e3", rendered_with={"word": "it"}
    )
    assert request.set == {**LITERALS, "g": "'it'"}
    assert request.condition == "1e3"
    merge_request = rendered_request(
        DeltaMergeOperator,
        native=native,
        on="'a'",
        query="'b'",
        when_matched=[{"update": LITERALS}],
        rendered_with={"word": "it"},
    )
    assert (merge_request.on, merge_request.query) == ("'a'", "'b'")
    assert merge_request.when_matched[0].update == request.set


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
    request_with_template_of_one_clause = rendered_request(
        DeltaMergeOperator, native=native, when_matched=["{{ clause | tojson }}"], rendered_with={"clause": CLAUSES[1]}
    )
    assert request_with_template_of_one_clause.when_matched == expected[1:]
    values = template.replace("clauses", "clauses[1]['update']")
    assert rendered_request(DeltaUpdateOperator, native=native, set=values, rendered_with={"clauses": CLAUSES}).set == {
        "a": "'closed'",
        "b": "1",
    }


@TEXT_AND_NATIVE
@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (DeltaDeleteOperator, {"condition": "{{ nothing }}"}, "condition is empty"),
        (DeltaUpdateOperator, {"condition": "{{ nothing }}"}, "condition is empty"),
        (DeltaUpdateOperator, {"set": {"a": "{{ nothing }}"}}, "set contains 'a': ''"),
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


class ReturnValue:
    """A return value of another task, as Airflow resolves it."""

    def __init__(self, value):
        self.value = value

    def resolve(self, context):
        return self.value


@TEXT_AND_NATIVE
@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (
            DeltaDeleteOperator,
            {"condition": ReturnValue(None)},
            "condition was given, but is empty after rendering",
        ),
        (
            DeltaUpdateOperator,
            {"condition": ReturnValue(None)},
            "condition was given, but is empty after rendering",
        ),
        (
            DeltaMergeOperator,
            {"when_not_matched": ReturnValue(None)},
            "when_not_matched was given, but is empty after rendering",
        ),
        (DeltaMergeOperator, {"query": ReturnValue(None)}, "query was given, but is empty after rendering"),
        (DeltaUpdateOperator, {"set": {"a": ReturnValue(None)}}, "set.a is None. .*'NULL'"),
        (
            DeltaMergeOperator,
            {"when_matched": [{"delete": True, "condition": ReturnValue(None)}]},
            r"when_matched\[0\].condition is None",
        ),
    ],
)
def test_a_missing_return_value_never_means_every_row(native, operator, parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_request(operator, native=native, **parameters)


def test_a_return_value_of_another_task_reaches_the_request():
    assert rendered_request(DeltaDeleteOperator, condition=ReturnValue("id = 1")).condition == "id = 1"
    clauses = ReturnValue([{"insert": {"a": "'x'"}}])
    assert rendered_request(DeltaMergeOperator, when_not_matched=clauses).when_not_matched == (
        MergeClause(insert={"a": "'x'"}),
    )


def test_a_second_rendering_of_a_task_forgets_that_a_parameter_was_empty():
    task = DeltaDeleteOperator(task_id="t", table="/t", condition=ReturnValue(None))
    task.render_template_fields({})
    task.condition = "id = 1"
    task.render_template_fields({})
    assert task._request().condition == "id = 1"


@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (DeltaDeleteOperator, {"condition": " "}, "condition is empty"),
        (DeltaDeleteOperator, {"condition": {"id": 1}}, "condition is a Python dict, but must be a text with SQL"),
        (DeltaMergeOperator, {"on": ["id"]}, "on is a Python list"),
        (DeltaDeleteOperator, {"table": "/lake/t@v3"}, "names a version, and only the newest version can be written"),
        (DeltaDeleteOperator, {"application_args": ["x"]}, "application_args"),
        (DeltaUpdateOperator, {"set": {}}, "set names no column"),
        (DeltaUpdateOperator, {"set": "a = 1"}, "set is 'a = 1', not a mapping"),
        (DeltaUpdateOperator, {"set": "*"}, r"set is '\*', not a mapping"),
        (DeltaUpdateOperator, {"set": ["a"]}, "set is .*, not a mapping"),
        (DeltaUpdateOperator, {"set": {"day": date(2026, 1, 31)}}, "set.day is a Python date"),
        (DeltaMergeOperator, {"source": None}, "has neither"),
        (DeltaMergeOperator, {"sources": {"a": CSV_SOURCE}}, "has both"),
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
            r"when_matched\[1\]: update is the text 'a = 1'",
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
            r"when_not_matched\[0\] has the action delete, but only insert",
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


def test_every_operator_is_public_under_the_name_of_its_class():
    for name in operators.__all__:
        assert getattr(operators, name).__name__ == name
    assert {operator.__name__ for operator in REQUIRED_PARAMETERS} <= set(operators.__all__)


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
