"""The required parameters of the delete, update and merge operators, and their rendered requests."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaUpdateOperator
from deltalite.requests import CommitRequest
from tests.airflow.rendering import rendered_task

CSV_SOURCE = {"format": "csv", "path": "/landing"}

REQUIRED_PARAMETERS = {
    DeltaDeleteOperator: {"condition": "id = 1"},
    DeltaUpdateOperator: {"set": {"a": "1"}},
    DeltaMergeOperator: {"source": CSV_SOURCE, "on": "target.id = source.id", "when_matched": [{"update": "*"}]},
}

EACH_OPERATOR = pytest.mark.parametrize("operator", REQUIRED_PARAMETERS, ids=lambda operator: operator.job)


def rendered_request(
    operator, *, native: bool = False, rendered_with: dict | None = None, **parameters
) -> CommitRequest:
    """Render the templates of an operator in a DAG, and return its request."""
    all_parameters = {"table": "/lake/t", **REQUIRED_PARAMETERS[operator], **parameters}
    return rendered_task(operator, native=native, rendered_with=rendered_with, **all_parameters)._request()
