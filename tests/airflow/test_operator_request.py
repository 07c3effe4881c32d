"""The request of the write operator contains each rendered parameter."""

from __future__ import annotations

import dataclasses
import inspect
import runpy
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_deltalite.operators import delta
from airflow_provider_deltalite.operators.delta import DeltaLakeMaintenanceOperator, DeltaWriteOperator
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests import CommitRequest, Deduplicate, OnRerun, PartitionOverwrite, Source, WriteMode, WriteRequest
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task

SECRETS_PROGRAM = Path(__file__).with_name("secrets_dag_run.py")
_FIELDS_WITHOUT_TEMPLATE = {"identity", "approval"}
_PARAMETER_OF_FIELD = {"dry_run": "dry_run_only"}  # `dry_run` is a method of every Airflow operator
_NAMES_OF_AIRFLOW = {
    name
    for base_class in SparkSubmitOperator.__mro__
    for name in (*vars(base_class), *inspect.signature(base_class.__init__).parameters)
}


def rendered_request(*, native: bool = False, rendered_with: dict | None = None, **parameters) -> WriteRequest:
    """Render the templates of an operator in a DAG, and return its request."""
    source = {} if "sources" in parameters else {"source": {"format": "csv", "path": "/landing"}}
    all_parameters = {**source, **parameters}
    return rendered_task(DeltaWriteOperator, native=native, rendered_with=rendered_with, **all_parameters)._request()


def test_the_default_is_an_append_of_one_source():
    assert rendered_request() == WriteRequest(
        table="/lake/orders", sources={"source": Source(format="csv", path="/landing")}, mode=WriteMode.APPEND
    )


def test_every_parameter_reaches_the_request():
    request = rendered_request(
        sources={
            "a": {"format": "csv", "path": "/a", "options": {"header": "true"}, "schema": "id BIGINT"},
            "b": {"format": "orc"},
        },
        query="SELECT * FROM a JOIN b USING (id)",
        mode="overwrite",
        partition_by=["day"],
        partition_overwrite="dynamic",
        merge_schema=True,
        max_records_per_file=10,
        optimize_write=True,
        data_change=False,
        user_metadata="note",
        properties={"delta.appendOnly": "false"},
        conflict_retries="0",
        conflict_seconds=5,
    )
    assert request == WriteRequest(
        table="/lake/orders",
        sources={
            "a": Source(format="csv", path="/a", options={"header": "true"}, schema="id BIGINT"),
            "b": Source(format="orc"),
        },
        query="SELECT * FROM a JOIN b USING (id)",
        mode=WriteMode.OVERWRITE,
        partition_by=("day",),
        partition_overwrite=PartitionOverwrite.DYNAMIC,
        merge_schema=True,
        max_records_per_file=10,
        optimize_write=True,
        data_change=False,
        user_metadata="note",
        properties={"delta.appendOnly": "false"},
        conflict_retries=0,
        conflict_seconds=5,
    )
    assert rendered_request(mode="overwrite", replace_where="day = '2026-01-01'").replace_where == "day = '2026-01-01'"
    assert rendered_request(mode="overwrite", overwrite_schema=True).overwrite_schema


@pytest.mark.parametrize("name", delta.__all__)
def test_every_field_of_the_request_is_templated(name):
    operator = getattr(delta, name)
    assert set(operator.template_fields_renderers) <= set(operator.template_fields)
    assert operator.sql_texts | operator.sql_structures <= set(operator.template_fields)
    fields = {field.name for field in dataclasses.fields(operator.request_class)} - _FIELDS_WITHOUT_TEMPLATE
    if operator is DeltaLakeMaintenanceOperator:
        fields -= {"table"}  # the request derives it from `tables` or `pattern`
    parameters = {_PARAMETER_OF_FIELD.get(field, field) for field in fields} | {"storage_conn_id"}
    if issubclass(operator.request_class, CommitRequest):
        parameters |= {"on_rerun", "idempotency_key"}
    if "sources" in fields:
        parameters.add("source")
    assert parameters <= set(operator.template_fields)
    assert set(SparkSubmitOperator.template_fields) <= set(operator.template_fields)


@pytest.mark.parametrize("name", delta.__all__)
def test_no_field_of_the_request_has_the_name_of_a_parameter_or_a_method_of_airflow(name):
    fields = {field.name for field in dataclasses.fields(getattr(delta, name).request_class)}
    names_of_airflow = (fields - _PARAMETER_OF_FIELD.keys()) & _NAMES_OF_AIRFLOW
    assert names_of_airflow == set(), "SparkSubmitOperator has parameters or methods of these names: rename the fields"


def test_the_dag_with_secrets_gives_every_operator_its_required_parameters(monkeypatch):
    monkeypatch.setenv("TEST_LAKE", "/lake")
    monkeypatch.setenv("TEST_OPERATORS", " ".join(delta.__all__))
    dag = runpy.run_path(str(SECRETS_PROGRAM))["dag"]
    for name in delta.__all__:
        dag.get_task(f"mapped_{name}").unmap({"conf": {}})


@TEXT_AND_NATIVE
@pytest.mark.parametrize("order_by", ["{{ column }}", ["{{ column }}", "id"]], ids=["text", "list"])
def test_deduplicate_takes_an_expression_or_a_list_of_expressions(native, order_by):
    rule = {"keys": ["{{ key }}"], "keep": "first", "order_by": order_by}
    request = rendered_request(native=native, deduplicate=rule, rendered_with={"key": "k", "column": "7"})
    expected = "7" if isinstance(order_by, str) else ("7", "id")
    assert request.deduplicate == Deduplicate(keys=("k",), keep="first", order_by=expected)


@TEXT_AND_NATIVE
def test_templates_are_rendered_inside_sources_too(native):
    request = rendered_request(
        native=native,
        table="/lake/{{ name }}",
        source={"format": "delta", "path": "/lake/raw", "version_as_of": "{{ version }}"},
        query="SELECT *, DATE'{{ ds }}' AS day FROM source",
        rendered_with={"name": "orders", "version": 7, "ds": "2026-01-01"},
    )
    assert request.table == "/lake/orders"
    assert request.sources["source"].version_as_of == 7
    assert request.query == "SELECT *, DATE'2026-01-01' AS day FROM source"


@TEXT_AND_NATIVE
def test_texts_that_look_like_other_values_stay_texts(native):
    request = rendered_request(
        native=native,
        table="{{ number }}",
        source={"format": "csv", "path": "/x", "options": {"header": "True", "nullValue": "", "quote": '"'}},
        user_metadata='{"ticket": 7}',
        properties={"delta.logRetentionDuration": "30"},
        rendered_with={"number": 2024},
    )
    assert request.table == "2024"
    assert request.sources["source"].options["header"].lower() == "true"
    assert request.sources["source"].options["nullValue"] == ""
    assert request.sources["source"].options["quote"] == '"'
    assert request.user_metadata == '{"ticket": 7}'
    assert request.properties == {"delta.logRetentionDuration": "30"}


def test_under_native_rendering_a_template_may_render_a_whole_parameter():
    rendered_values = {"rows": {"format": "orc"}, "columns": ["a", "b"], "flag": "true"}
    request = rendered_request(
        native=True,
        source="{{ rows }}",
        partition_by="{{ columns }}",
        merge_schema="{{ flag }}",
        max_records_per_file="{{ 1000 }}",
        rendered_with=rendered_values,
    )
    assert request.sources == {"source": Source(format="orc")}
    assert request.partition_by == ("a", "b")
    assert request.merge_schema is True
    assert request.max_records_per_file == 1000


def test_python_values_become_texts_that_spark_reads():
    options = {"header": True, "samplingRatio": 0.5, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    request = rendered_request(table=Path("/lake/orders"), source={"format": "csv", "path": "/x", "options": options})
    assert request.table == "/lake/orders"
    assert request.sources["source"].options == {
        "header": "true",
        "samplingRatio": "0.5",
        "at": "2026-01-01T00:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"source": None}, "has neither"),
        ({"sources": {"a": {"format": "csv"}}, "source": {"format": "csv"}}, "has both"),
        ({"source": {"format": "csv", "pth": "/x"}}, "'pth'.*format, path, options, schema, version_as_of"),
        ({"source": {"path": "/x"}}, "sources.source has no 'format'"),
        ({"source": "csv"}, "not a mapping"),
        (
            {"source": {"format": "delta", "path": "/x", "version_as_of": "None"}},
            "version_as_of is 'None', not a whole number",
        ),
        ({"source": {"format": "delta", "path": "/x", "version_as_of": 1.5}}, "not a whole number"),
        ({"source": {"format": "delta", "path": "/x", "version_as_of": True}}, "not a whole number"),
        (
            {"source": {"format": "delta", "path": "/x", "changes_from_version": "3", "changes_to_version": 2}},
            "sources.source: Invalid range of changes: from version 3 to 2",
        ),
        ({"source": {"format": "csv", "options": "header"}}, "options is 'header', not a mapping"),
        ({"table": "/lake/orders@v3"}, "names a version, and only the newest version can be written"),
        ({"mode": "upsert"}, "mode is 'upsert'. Choose one of 'append', 'overwrite', 'error', 'ignore'"),
        ({"partition_by": "day"}, "partition_by is 'day', not a list"),
        ({"partition_by": ["day", {1}]}, r"partition_by\[1\] is .*, not a text"),
        ({"merge_schema": "perhaps"}, "merge_schema is 'perhaps', not true or false"),
        ({"query": {1, 2}}, "query is .*, not a text"),
        ({"replace_where": "a = 1"}, "replace_where needs mode 'overwrite'"),
        ({"application_args": ["x"]}, "application_args"),
        ({"java_class": "Main"}, "java_class"),
    ],
)
def test_an_invalid_parameter_is_rejected_by_name(parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_request(**parameters)


class MissingReturnValue:
    """A return value of another task that Airflow resolves to None."""

    def resolve(self, context):
        return None


@TEXT_AND_NATIVE
@pytest.mark.parametrize("parameter", ["replace_where", "query"])
def test_sql_that_is_rendered_as_empty_is_rejected(native, parameter):
    with pytest.raises(InvalidRequestError, match=f"{parameter} was given, but is empty after rendering"):
        rendered_request(native=native, mode="overwrite", **{parameter: MissingReturnValue()})
    with pytest.raises(InvalidRequestError, match=f"{parameter}`? is empty"):
        rendered_request(native=native, mode="overwrite", rendered_with={"a": ""}, **{parameter: "{{ a }}"})


@pytest.mark.parametrize(
    "parameters", [{"table": "s3:/"}, {"table": " /lake "}, {"source": {"format": "Delta", "path": "s3:///x"}}]
)
def test_a_malformed_address_is_rejected_before_a_job_is_submitted(parameters):
    with pytest.raises(InvalidTableAddressError):
        rendered_request(**parameters)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, OnRerun.SKIP),
        ({"mode": "error"}, OnRerun.SKIP),
        ({"mode": "ignore"}, OnRerun.SKIP),
        ({"mode": "overwrite"}, OnRerun.WRITE),
        ({"mode": "overwrite", "replace_where": "a = 1"}, OnRerun.WRITE),
        ({"on_rerun": "replace"}, OnRerun.REPLACE),
        ({"mode": "overwrite", "on_rerun": "skip"}, OnRerun.SKIP),
    ],
)
def test_the_mode_decides_the_default_of_on_rerun(parameters, expected, context):
    operator = DeltaWriteOperator(task_id="load", table="/lake/t", source={"format": "csv"}, **parameters)
    assert operator._identity(operator._request(), context).on_rerun is expected


def test_the_namespace_is_a_setting_of_the_deployment(context, monkeypatch):
    operator = DeltaWriteOperator(task_id="load", table="/lake/t", source={"format": "csv"})
    assert operator._identity(operator._request(), context).app_id.startswith("airflow/sales/load/-1/scheduled__")
    monkeypatch.setenv("AIRFLOW__DELTALITE__NAMESPACE", "production")
    assert operator._identity(operator._request(), context).app_id.startswith("production/sales/")


def test_an_operator_can_be_mapped_over_its_sources():
    with DAG("d", schedule=None):
        mapped = DeltaWriteOperator.partial(task_id="load", table="/t", executor_memory="3G").expand(
            source=[{"format": "csv", "path": "/a"}, {"format": "csv", "path": "/b"}]
        )
    second_task = mapped.unmap({"source": {"format": "csv", "path": "/b"}})
    assert second_task._request().sources["source"].path == "/b"
    assert second_task._executor_memory == "3G"


def test_default_args_of_a_dag_reach_the_parameters_of_spark_and_of_this_provider():
    defaults = {"executor_memory": "3G", "mode": "overwrite", "durable": False, "storage_conn_id": "lake"}
    with DAG("d", schedule=None, default_args=defaults):
        operator = DeltaWriteOperator(task_id="load", table="/t", source={"format": "csv"})
    assert (operator._executor_memory, operator.mode, operator.durable, operator.storage_conn_id) == (
        "3G",
        "overwrite",
        False,
        "lake",
    )
