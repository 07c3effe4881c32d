"""SQL in files of the DAG folder. Airflow reads the files when it parses a DAG, and renders their text for a task."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import (
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaUpdateOperator,
    DeltaWriteOperator,
)
from deltalite.errors import InvalidRequestError
from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.support.airflow_versions import DagBag

CSV_SOURCE = {"format": "csv", "path": "/landing"}
TEXTS_BY_FILE = {
    "sql/load.sql": "{% include 'sql/head.txt' %} FROM source -- see other.sql",
    "sql/head.txt": "SELECT *, DATE'{{ ds }}' AS day",
    "sql/day.sql": "target.day = DATE'{{ ds }}'\n",
    "sql/name.sql": "{{ team | sql_literal }}",
    "sql/number.sql": "{{ number }}",
    "sql/empty.sql": "",
}
CONTEXT = {"ds": "2026-01-31", "team": "a'b", "number": 7}
DAY_CONDITION = "target.day = DATE'2026-01-31'"
NAME_LITERAL = "CAST(X'612762' AS STRING)"
CLAUSES = {
    "on": "sql/day.sql",
    "when_matched": [{"update": {"a.b": "sql/name.sql", "c": "1e3"}, "condition": "sql/day.sql"}, {"delete": True}],
    "when_not_matched": [{"insert": "*", "condition": "sql/day.sql"}],
}


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS_BY_FILE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def dag_in(folder, *, native: bool = False) -> DAG:
    dag = DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native)
    dag.fileloc = str(folder / "sales.py")
    return dag


def rendered_task(folder, operator_class, *, native=False, is_parsed_by_airflow=True, **parameters):
    """Return a task with rendered templates. If `is_parsed_by_airflow`, Airflow reads the files before it renders."""
    with (dag := dag_in(folder, native=native)):
        task = operator_class(**{"task_id": "load", "table": "/lake/orders", **parameters})
    if is_parsed_by_airflow:
        dag.resolve_template_files()
    task.render_template_fields(dict(CONTEXT))
    return task


def rendered_mapped_task(folder, operator_class, mapped_arguments, *, native=False, **parameters):
    """Return the first task of a mapped operator, with rendered templates."""
    with (dag := dag_in(folder, native=native)):
        mapped = operator_class.partial(**{"task_id": "load", "table": "/lake/orders", **parameters}).expand(
            **mapped_arguments
        )
    dag.resolve_template_files()
    run_context = {"ti": SimpleNamespace(map_index=0), "dag": dag, "dag_run": SimpleNamespace(conf=None)}
    context = {**CONTEXT, **run_context}
    mapped.render_template_fields(context)
    return context["task"]


@TEXT_AND_NATIVE
@pytest.mark.parametrize("is_parsed_by_airflow", [True, False])
@pytest.mark.parametrize(
    ("operator_class", "parameter", "other_parameters"),
    [
        (DeltaDeleteOperator, "condition", {}),
        (DeltaUpdateOperator, "condition", {"set": {"a": "1"}}),
        (DeltaOptimizeOperator, "where", {}),
        (DeltaWriteOperator, "replace_where", {"source": CSV_SOURCE, "mode": "overwrite"}),
        (DeltaMergeOperator, "on", {"source": CSV_SOURCE, "when_matched": [{"delete": True}]}),
    ],
)
def test_a_condition_may_be_a_file_with_templates(
    folder, native, is_parsed_by_airflow, operator_class, parameter, other_parameters
):
    parameters = {**other_parameters, parameter: "sql/day.sql"}
    task = rendered_task(folder, operator_class, native=native, is_parsed_by_airflow=is_parsed_by_airflow, **parameters)
    assert getattr(task._request(), parameter) == DAY_CONDITION


@TEXT_AND_NATIVE
def test_a_query_file_may_include_a_file_and_its_text_may_end_like_a_file_name(folder, native):
    task = rendered_task(folder, DeltaWriteOperator, native=native, source=CSV_SOURCE, query="sql/load.sql")
    assert task._request().query == "SELECT *, DATE'2026-01-31' AS day FROM source -- see other.sql"


def assert_clauses(task):
    """Assert that the task's request has the clauses of `CLAUSES`, with the texts of the files that they name."""
    request = task._request()
    assert request.on == DAY_CONDITION
    update_clause, delete_clause = request.when_matched
    assert (update_clause.update, update_clause.condition) == ({"a.b": NAME_LITERAL, "c": "1e3"}, DAY_CONDITION)
    assert delete_clause.delete is True
    assert request.when_not_matched[0].condition == DAY_CONDITION


@TEXT_AND_NATIVE
def test_the_sql_of_clauses_may_be_files(folder, native):
    assert_clauses(rendered_task(folder, DeltaMergeOperator, native=native, source=CSV_SOURCE, **CLAUSES))


@TEXT_AND_NATIVE
def test_the_sql_of_a_mapped_task_may_be_files(folder, native):
    assert_clauses(rendered_mapped_task(folder, DeltaMergeOperator, {"source": [CSV_SOURCE]}, native=native, **CLAUSES))
    task = rendered_mapped_task(folder, DeltaDeleteOperator, {"condition": ["sql/day.sql", "a = 1"]}, native=native)
    assert task._request().condition == DAY_CONDITION


@TEXT_AND_NATIVE
def test_values_of_an_update_may_be_files_and_stay_text(folder, native):
    task = rendered_task(folder, DeltaUpdateOperator, native=native, set={"a": "sql/name.sql", "b": "sql/number.sql"})
    assert task._request().set == {"a": NAME_LITERAL, "b": "7"}


@TEXT_AND_NATIVE
def test_a_parameter_that_is_not_sql_is_never_a_file(folder, native):
    """The values are names of existing files, so only the kind of the parameter keeps Airflow from reading them."""
    task = rendered_task(
        folder,
        DeltaWriteOperator,
        native=native,
        table="/lake/sql/day.sql",
        source={"format": "text", "path": "sql/day.sql", "options": {"x": "sql/day.sql"}},
        query="SELECT 1 FROM source",
        query_params={"p": "sql/day.sql"},
        idempotency_key="sql/day.sql",
        files="sql/day.sql",
        conf={"spark.x": "sql/day.sql"},
        user_metadata="{{ ds }} sql/day.sql",
    )
    request = task._request()
    source = request.sources["source"]
    assert request.table == "/lake/sql/day.sql"
    assert (source.path, source.options["x"]) == ("sql/day.sql", "sql/day.sql")
    assert (request.query_params["p"], task.idempotency_key) == ("sql/day.sql", "sql/day.sql")
    assert (task.files, task.conf) == ("sql/day.sql", {"spark.x": "sql/day.sql"})
    assert request.user_metadata == "2026-01-31 sql/day.sql"


@pytest.mark.parametrize(
    "text", ["a = other.sql ", "a = 1\n-- see other.sql"], ids=["a space at the end", "several lines"]
)
def test_sql_that_ends_like_a_file_name_is_possible(folder, text):
    assert rendered_task(folder, DeltaDeleteOperator, condition=text)._request().condition == text


def test_rendered_text_is_never_the_name_of_a_file(folder):
    task = rendered_task(folder, DeltaDeleteOperator, condition="{{ 'sql/day.' }}{{ 'sql' }}")
    assert task._request().condition == "sql/day.sql"


def test_an_empty_file_is_rejected(folder):
    with pytest.raises(InvalidRequestError, match="condition"):
        rendered_task(folder, DeltaDeleteOperator, condition="sql/empty.sql")._request()


def test_a_missing_file_of_a_mapped_task_is_rejected_with_its_parameter(folder):
    clauses = {**CLAUSES, "when_matched": [{"delete": True, "condition": "sql/none.sql"}]}
    with pytest.raises(InvalidRequestError, match=r"'sql/none.sql', which when_matched\[0\]\.condition names"):
        rendered_mapped_task(folder, DeltaMergeOperator, {"source": [CSV_SOURCE]}, **clauses)


def test_a_missing_file_is_an_import_error_of_the_dag(folder):
    (folder / "sales.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_deltalite.operators.delta import DeltaUpdateOperator\n"
        "with DAG('sales', schedule=None):\n"
        "    DeltaUpdateOperator(task_id='fix', table='/t', set={'a': 'sql/number.sql', 'b': 'sql/none.sql'})\n"
    )
    (error,) = DagBag(folder).import_errors.values()
    assert "Task 'fix' of DAG 'sales': Could not read the template file 'sql/none.sql', which set.b names." in error
    assert str(folder) in error
    assert "end it with a space" in error


def test_the_constants_beside_a_file_are_checked_when_the_dag_is_parsed(folder):
    with dag_in(folder), pytest.raises(InvalidRequestError, match="mode is 'appendd'"):
        DeltaWriteOperator(task_id="load", table="/t", source=CSV_SOURCE, query="sql/load.sql", mode="appendd")
    with dag_in(folder), pytest.raises(InvalidRequestError, match=r"mode is 'mode\.sql'"):
        DeltaWriteOperator(task_id="load", table="/t", source=CSV_SOURCE, mode="mode.sql")
