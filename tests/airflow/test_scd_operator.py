"""The SCD operator: its request, and parameters that are rejected when Airflow parses the DAG."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaScdOperator
from deltalite.errors import InvalidRequestError
from deltalite.requests import Deduplicate, OnRerun, ScdRequest, Source
from tests.airflow.rendering import TEXT_AND_NATIVE

REQUIRED = {
    "task_id": "history",
    "table": "/lake/t",
    "source": {"format": "csv", "path": "/in"},
    "keys": ["id"],
    "sequence_by": "changed_at",
}


def task(*, native: bool = False, **parameters) -> DeltaScdOperator:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        return DeltaScdOperator(**{**REQUIRED, **parameters})


def test_the_required_parameters_are_enough():
    operator = task()
    request = operator._request()
    expected = ScdRequest(
        table="/lake/t",
        sources={"source": Source(format="csv", path="/in")},
        keys=("id",),
        sequence_by="changed_at",
    )
    assert request == expected
    assert operator.default_on_rerun(request) is OnRerun.WRITE and not operator.needs_table(request)
    assert operator.addresses(request) == ["/lake/t"]


@TEXT_AND_NATIVE
def test_every_parameter_is_rendered(native):
    operator = task(
        native=native,
        keys=["{{ key }}", "part"],
        sequence_by="DATE'{{ ds }}'",
        scd_type="{{ kind }}",
        track=["name"],
        delete_when="op = '{{ op }}'",
        exclude=["op"],
        on_same_sequence="replace",
        valid_from="begins",
        valid_to="ends",
        current="newest",
        events="_events",
        merge_schema="{{ flag }}",
        deduplicate={"keys": ["{{ key }}"], "order_by": "{{ key }}"},
        properties={"delta.enableDeletionVectors": "true"},
    )
    operator.render_template_fields({"key": "id", "ds": "2026-01-01", "kind": 2, "op": "D", "flag": True})
    assert operator._request() == ScdRequest(
        table="/lake/t",
        sources={"source": Source(format="csv", path="/in")},
        keys=("id", "part"),
        sequence_by="DATE'2026-01-01'",
        track=("name",),
        delete_when="op = 'D'",
        exclude=("op",),
        on_same_sequence="replace",
        valid_from="begins",
        valid_to="ends",
        current="newest",
        events="_events",
        merge_schema=True,
        deduplicate=Deduplicate(keys=("id",), order_by="id"),
        properties={"delta.enableDeletionVectors": "true"},
    )


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"keys": []}, "has no keys"),
        ({"scd_type": 3}, "scd_type is 3"),
        ({"deduplicate": {"key": ["id"]}}, "unknown key 'key'"),
        ({"deduplicate": {"keys": []}}, "deduplicate has no keys"),
        ({"on_same_sequence": "any"}, "on_same_sequence is 'any'"),
        ({"sources": {"a": {"format": "csv"}}}, "has both"),
    ],
)
def test_a_wrong_constant_fails_the_import_of_the_dag(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        task(**parameters)
