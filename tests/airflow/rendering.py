"""Operators in a DAG with rendered templates, as at the start of a task."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator

TEXT_AND_NATIVE = pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
"""Runs a test with templates that render as text, and with `render_template_as_native_obj`."""

_Operator = TypeVar("_Operator", bound=DeltaSubmitOperator)


def rendered_task(
    operator_class: type[_Operator],
    *,
    native: bool = False,
    rendered_with: dict[str, Any] | None = None,
    **parameters: Any,
) -> _Operator:
    """Return a task on `/lake/orders` whose templates are rendered with the values `rendered_with`.

    `native` sets `render_template_as_native_obj`.
    """
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=native):
        task = operator_class(**{"task_id": "task", "table": "/lake/orders", **parameters})
    task.render_template_fields(rendered_with or {})
    return task
