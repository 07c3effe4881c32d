"""A DAG that runs once for each changed partition of a table (Airflow 3.2 and later).

Airflow starts a DAG for a partition only if an event has a partition key. A task can send such events: its operator has
`partition_events=True`, or its DAG has the schedule `PartitionedAtRuntime`. A watcher cannot send such events, because
Airflow gives its events no key. The DAG `orders_changed_days` fills this gap: a watcher starts it, and its task
sends one event for each partition that changed. If the watcher does not know the partitions, the task fails. Then
trigger `orders_by_day` yourself for the partitions that changed.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta

import airflow.sdk
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG, Asset, get_current_context, task

from airflow_provider_deltalite.assets.delta import delta_asset, delta_events, partition_values

LOCATION = f"{os.environ.get('AIRFLOW_VAR_LAKE', '/data/lake')}/orders"
ORDERS = delta_asset(LOCATION, watch=True, poke_interval=30)
CHANGED_DAYS = Asset("orders_changed_days")
SETTINGS = {
    "start_date": datetime(2026, 3, 1, tzinfo=UTC),
    "default_args": {"retries": 2, "retry_delay": timedelta(minutes=1)},
    "tags": ["deltalite", "example"],
}


# [START announce_changed_days]
@task(outlets=[CHANGED_DAYS])
def announce_changed_days() -> None:
    """Send one event for each partition of the table that changed."""
    context = get_current_context()
    events = delta_events(context, ORDERS)
    if events and events.partitions is None:
        raise RuntimeError(f"The events up to version {events.version} do not name the partitions that changed.")
    if not events.partitions:
        raise AirflowSkipException("No partition has changed.")
    context["outlet_events"][CHANGED_DAYS].add_partitions(list(events.partitions))


# [END announce_changed_days]


# [START count_orders]
@task
def count_orders() -> dict[str, object]:
    """Count the orders of this run's partition."""
    from deltalite import DeltaTable

    day = str(partition_values(get_current_context()["dag_run"].partition_key)["day"])
    table = DeltaTable(LOCATION)
    return {"day": day, "orders": table.to_arrow(["day"], filter=[("day", "=", date.fromisoformat(day))]).num_rows}


# [END count_orders]


if hasattr(airflow.sdk, "PartitionedAssetTimetable"):  # Airflow 3.2 and later
    # [START schedule]
    with DAG("orders_changed_days", schedule=[ORDERS], max_active_runs=1, **SETTINGS):
        announce_changed_days()

    with DAG("orders_by_day", schedule=airflow.sdk.PartitionedAssetTimetable(assets=CHANGED_DAYS), **SETTINGS):
        count_orders()
    # [END schedule]
