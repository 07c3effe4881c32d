"""Names of Airflow that stand elsewhere, or are not there yet, in the oldest version that is tested."""

from __future__ import annotations

import json
from typing import Any

import airflow.sdk
import pytest

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag

try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:  # Airflow 3.1
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException

__all__ = ["NEVER_EXPIRE", "AirflowRescheduleException", "DagBag", "since_3_3", "stored"]

NEVER_EXPIRE = getattr(airflow.sdk, "NEVER_EXPIRE", None)
"""Airflow's own, None where it keeps no state for a task: what asks for it is not reached there."""

since_3_3 = pytest.mark.skipif(NEVER_EXPIRE is None, reason="what is tested came with Airflow 3.3")
"""A test of what needs a task's state, `durable`, or retry policies."""


def stored(dag: airflow.sdk.DAG) -> Any:
    """The DAG as the scheduler reads it back from the metadata database."""
    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
