"""Constant parameters are checked when the DAG is parsed. Other parameters are checked when the task runs."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG, task

from airflow_provider_deltalite.operators.delta import (
    DeltaConvertOperator,
    DeltaCopyOperator,
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaRestoreOperator,
    DeltaUpdateOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
)
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from airflow_provider_deltalite.task_groups.delta import delta_maintenance
from deltalite.errors import InvalidRequestError

CSV_SOURCE = {"format": "csv", "path": "/landing"}
CSV_OPTIONS = ("sep", "delimiter", "lineSep", "quote", "escape", "comment", "charToEscapeQuoteEscaping")
DELTA_SOURCE = {"format": "delta", "path": "/lake/raw"}
MERGE_PARAMETERS = {"source": CSV_SOURCE, "on": "target.id = source.id"}


def parse_task(operator, *, dag_parameters=None, **parameters):
    """Create a task as the parsing of its DAG file does."""
    with DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), **(dag_parameters or {})):
        return operator(**{"task_id": "load", "table": "/lake/orders", **parameters})


@pytest.mark.parametrize(
    ("operator", "parameters", "problem"),
    [
        (DeltaWriteOperator, {"source": CSV_SOURCE, "mode": "appendd"}, "mode is 'appendd'"),
        (DeltaWriteOperator, {"source": {"fromat": "csv"}}, r"sources\.source has the unknown key 'fromat'"),
        (DeltaWriteOperator, {"source": {"fromat": "csv", "path": "{{ ds }}"}}, "unknown key 'fromat'"),
        (DeltaWriteOperator, {"source": {"path": "/landing/{{ ds }}"}}, "has no 'format'"),
        (
            DeltaWriteOperator,
            {"source": {**CSV_SOURCE, "options": {"quote": "||", "sep": "{{ params.sep }}"}}},
            "option 'quote' of the CSV source",
        ),
        (DeltaWriteOperator, {}, "one of `source` and `sources`, but has neither"),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "sources": {"a": CSV_SOURCE}}, "has both"),
        (
            DeltaWriteOperator,
            {"source": CSV_SOURCE, "replace_where": "day = '{{ ds }}'"},
            "replace_where needs mode 'overwrite'",
        ),
        (
            DeltaWriteOperator,
            {"source": CSV_SOURCE, "overwrite_schema": True},
            "overwrite_schema needs mode 'overwrite'",
        ),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "partition_by": ["day", "Day"]}, "partition_by names"),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "partition_by": "day"}, "not a list"),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "on_rerun": "again"}, "on_rerun is 'again'"),
        (
            DeltaWriteOperator,
            {"source": CSV_SOURCE, "mode": "overwrite", "on_rerun": "replace"},
            "applies only to an append",
        ),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "conflict_retries": "many"}, "conflict_retries is 'many'"),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "table": "/lake/orders@v3"}, "names a version"),
        (DeltaWriteOperator, {"source": {**CSV_SOURCE, "path": "/landing/../secrets"}}, r"\.\."),
        (
            DeltaWriteOperator,
            {"source": CSV_SOURCE, "application_args": ["x"]},
            "This operator sets application_args and java_class itself",
        ),
        (
            DeltaWriteOperator,
            {"source": {**DELTA_SOURCE, "path": "{{ p }}", "version_as_of": 1, "timestamp_as_of": "2026-01-01"}},
            "version_as_of and timestamp_as_of",
        ),
        (
            DeltaMergeOperator,
            {**MERGE_PARAMETERS, "when_matched": [{"udpate": "*"}]},
            r"when_matched\[0\].*'udpate'",
        ),
        (
            DeltaMergeOperator,
            {**MERGE_PARAMETERS, "when_matched": [{"update": {"a": "{{ b }}"}, "delete": True}]},
            "update and delete",
        ),
        (DeltaMergeOperator, {**MERGE_PARAMETERS, "when_matched": [{"insert": "*"}]}, "is allowed there"),
        (DeltaDeleteOperator, {"condition": "  "}, "condition is empty"),
        (DeltaUpdateOperator, {"set": {}}, "names no column"),
        (DeltaUpdateOperator, {"set": {"a": None}}, r"set\.a is None"),
        (
            DeltaUpdateOperator,
            {"set": {"a": "1"}, "condition": datetime(2026, 1, 1, tzinfo=UTC)},
            "but must be a text with SQL",
        ),
        (DeltaVacuumOperator, {"mode": "litte"}, "mode is 'litte'"),
        (DeltaVacuumOperator, {"retention_hours": "-1"}, "retention_hours"),
        (DeltaRestoreOperator, {"version": 1, "timestamp": "2026-01-01"}, "version"),
        (DeltaRestoreOperator, {"timestamp": "noon"}, "Invalid time 'noon'"),
        (DeltaOptimizeOperator, {"target_file_size": "big"}, "target_file_size"),
        (DeltaConvertOperator, {"on_rerun": "replace"}, "applies only to an append"),
        (DeltaVersionSensor, {"after_version": "newest"}, "after_version is 'newest'"),
        (DeltaVersionSensor, {"operations": "WRITE"}, "not a list"),
        (DeltaVersionSensor, {"table": "s3://lake/../t"}, r"\.\."),
    ],
)
def test_an_invalid_constant_is_rejected_with_dag_task_and_parameter(operator, parameters, problem):
    with pytest.raises(InvalidRequestError, match=rf"^Task 'load' of DAG 'sales': .*{problem}"):
        parse_task(operator, **parameters)


@task
def return_value():
    return "append"


@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        (DeltaWriteOperator, {"source": CSV_SOURCE, "mode": "{{ params.mode }}"}),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "mode": "{{ params.mode }}", "replace_where": "a = 1"}),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "mode": "{% if a %}append{% else %}overwrite{% endif %}"}),
        (DeltaWriteOperator, {"source": "{{ ti.xcom_pull('a') }}"}),
        (DeltaWriteOperator, {"sources": "{{ params.sources | tojson }}", "query": "SELECT 1"}),
        (DeltaWriteOperator, {"source": {**CSV_SOURCE, "format": "{{ params.format }}", "version_as_of": 3}}),
        (DeltaWriteOperator, {"source": {**DELTA_SOURCE, "version_as_of": "{{ v }}", "timestamp_as_of": "{{ t }}"}}),
        (DeltaWriteOperator, {"source": {**DELTA_SOURCE, "changes_from_version": "{{ v }}", "changes_to_version": 0}}),
        (
            DeltaWriteOperator,
            {"source": {**CSV_SOURCE, "options": {"sep": r"{{ '\|' }}", "Quote": "{{ params.quote }}"}}},
        ),
        (DeltaWriteOperator, {"source": {**CSV_SOURCE, "options": dict.fromkeys(CSV_OPTIONS, "{{ params.x }}")}}),
        (DeltaCopyOperator, {"source": {"format": "{{ params.format }}", "path": "/landing"}}),
        (
            DeltaCopyOperator,
            {
                "source": {
                    **CSV_SOURCE,
                    "options": {"header": "true", "unescapedQuoteHandling": "{{ params.handling }}"},
                }
            },
        ),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "max_records_per_file": "{{ n }}"}),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "overwrite_schema": "{{ w }}"}),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "table": "{{ table }}@v1"}),
        (DeltaWriteOperator, {"source": CSV_SOURCE, "query": "load.sql", "on_rerun": "{{ policy }}"}),
        (
            DeltaWriteOperator,
            {
                "source": CSV_SOURCE,
                "partition_by": "['day']",
                "dag_parameters": {"render_template_as_native_obj": True},
            },
        ),
        (DeltaWriteOperator, {"source": lambda context, jinja_env: CSV_SOURCE}),
        (DeltaMergeOperator, {"source": CSV_SOURCE, "on": "{{ on }}", "when_matched": "{{ clauses | tojson }}"}),
        (DeltaMergeOperator, {**MERGE_PARAMETERS, "when_matched": ["{{ c }}"]}),
        (
            DeltaMergeOperator,
            {**MERGE_PARAMETERS, "when_matched": [{"delete": "{{ d }}", "condition": "a"}, {"update": "*"}]},
        ),
        (DeltaUpdateOperator, {"set": {"a": "{{ a | sql_literal }}"}, "condition": "{{ c }}"}),
        (DeltaVacuumOperator, {"table": "{{ table }}", "retention_hours": 1, "confirm_short_retention": "orders"}),
        (DeltaVacuumOperator, {"retention_hours": "{{ hours }}", "dry_run": "{{ dry }}"}),
        (DeltaRestoreOperator, {"version": "{{ v }}", "timestamp": "{{ t }}"}),
        (DeltaRestoreOperator, {"timestamp": "{{ t }}", "user_metadata": "back to noon"}),
        (DeltaVersionSensor, {"after_version": "{{ ti.xcom_pull('load')['version'] }}", "operations": "{{ o }}"}),
    ],
)
def test_a_parameter_with_a_template_is_accepted_when_the_dag_is_parsed(operator, parameters):
    assert parse_task(operator, **parameters).task_id == "load"


def test_a_template_with_the_jinja_delimiters_of_its_dag_is_accepted_too():
    dag_parameters = {"jinja_environment_kwargs": {"variable_start_string": "[[", "variable_end_string": "]]"}}
    assert parse_task(DeltaWriteOperator, dag_parameters=dag_parameters, source=CSV_SOURCE, mode="[[ params.mode ]]")
    with pytest.raises(InvalidRequestError):
        parse_task(DeltaWriteOperator, source=CSV_SOURCE, mode="<< params.mode >>")


def test_a_return_value_of_another_task_is_accepted_and_constants_beside_it_are_checked():
    with DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        DeltaWriteOperator(task_id="load", table=return_value(), source=return_value(), mode=return_value())
        with pytest.raises(InvalidRequestError, match="mode is 'appendd'"):
            DeltaWriteOperator(task_id="typo", table=return_value(), source=return_value(), mode="appendd")


def test_mapped_parameters_are_accepted_and_the_worker_checks_the_rendered_values():
    with DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        mapped = DeltaWriteOperator.partial(task_id="load", table="/t", mode="appendd").expand(source=[CSV_SOURCE])
        delta_maintenance.partial(vacuum={"retention_hours": "{{ h }}"}).expand(table=["/a", "/b"])
    unmapped = mapped.unmap({"source": CSV_SOURCE})
    with pytest.raises(InvalidRequestError, match="mode is 'appendd'"):
        unmapped._request()


def test_the_steps_of_a_task_group_and_default_args_are_checked():
    with DAG("sales", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), default_args={"on_rerun": "agian"}):
        with pytest.raises(InvalidRequestError, match="Task 'load' of DAG 'sales': on_rerun is 'agian'"):
            DeltaWriteOperator(task_id="load", table="/t", source=CSV_SOURCE)
        with pytest.raises(InvalidRequestError, match=r"Task 'maintenance\.vacuum' of DAG 'sales': mode is 'litte'"):
            delta_maintenance("/t", optimize={"on_rerun": "write"}, vacuum={"mode": "litte", "on_rerun": "write"})


def test_a_subclass_is_checked_after_its_constructor():
    class Load(DeltaWriteOperator):
        def __init__(self, **kwargs):
            super().__init__(source=CSV_SOURCE, **kwargs)
            self.mode = "appendd"

    with pytest.raises(InvalidRequestError, match="mode is 'appendd'"):
        parse_task(Load)


def test_the_import_of_a_dag_file_raises_the_error(tmp_path):
    dag_file = tmp_path / "orders.py"
    dag_file.write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_deltalite.operators.delta import DeltaWriteOperator\n"
        "with DAG('orders', schedule=None):\n"
        "    DeltaWriteOperator(task_id='load', table='/t', source={'format': 'csv'}, mode='appendd')\n"
    )
    with pytest.raises(InvalidRequestError, match="Task 'load' of DAG 'orders': mode is 'appendd'"):
        runpy.run_path(str(dag_file))
