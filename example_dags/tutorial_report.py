"""The second DAG of the tutorial: waits for a commit of the first DAG, and reads the table at that version.

The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

# [START report]
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor


@task
def report(commit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the customers at the version of the commit, without Spark."""
    from deltalite import DeltaTable

    customers = DeltaTable(commit["table"], version=commit["version"]).to_arrow(columns=["customer", "orders"])
    return sorted(customers.to_pylist(), key=str)


with DAG("tutorial_report", schedule="@daily", start_date=datetime(2026, 3, 1, tzinfo=UTC), catchup=False):
    wait = DeltaVersionSensor(
        task_id="wait",
        table="{{ var.value.lake }}/customers",
        made_by={"dag_id": "tutorial", "task_id": "merge", "logical_date": "{{ logical_date.isoformat() }}"},
        after_version=-1,  # any version, because the commit may be older than the wait
        poke_interval=5,
        timeout=timedelta(hours=1),
    )
    report(wait.output)
# [END report]
