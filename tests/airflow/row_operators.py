"""The required parameters of the delete, update and merge operators, and their rendered requests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaUpdateOperator
from deltalite.requests import CommitRequest

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
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        task = operator(**{"task_id": "change", "table": "/lake/t", **REQUIRED_PARAMETERS[operator], **parameters})
    task.render_template_fields(rendered_with or {})
    return task._request()
