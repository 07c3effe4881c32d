"""Names of Airflow that its oldest tested version lacks, or has in another module."""

from __future__ import annotations

import json
from typing import Any

import airflow.sdk
import pytest

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag, sync_bag_to_db

try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:  # Airflow 3.1
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowRescheduleException

__all__ = ["NEVER_EXPIRE", "AirflowRescheduleException", "DagBag", "scheduler_copy", "since_3_3", "sync_bag_to_db"]

NEVER_EXPIRE = getattr(airflow.sdk, "NEVER_EXPIRE", None)
"""Airflow's `NEVER_EXPIRE`; None before Airflow 3.3, which keeps no task state."""

since_3_3 = pytest.mark.skipif(NEVER_EXPIRE is None, reason="this feature needs Airflow 3.3")
"""Marks a test that needs task state, `durable`, or retry policies."""


def scheduler_copy(dag: airflow.sdk.DAG) -> Any:
    """The copy of a DAG that the scheduler gets from the metadata database: serialized, then deserialized."""
    return DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
