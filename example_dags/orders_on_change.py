"""Start a DAG when any program changes a table.

The triggerer watches the log of `orders`. A commit of any program, not only of Airflow, starts a DAG run within about a
minute. An OPTIMIZE or a VACUUM starts none, because it changes no row. The run gets a range of versions and reads the
table at the last version. Later commits start the next run. Airflow may repeat an event, and may merge several events
into one run. The task only reads a version of the table, so a second run for the same versions changes nothing.

Airflow must know the asset when it parses this file, so the address cannot be a template. Here it comes from the
environment. Airflow watches the table while the DAG is not paused, and stores the last version that it has seen.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task

from airflow_provider_deltalite.assets.delta import delta_asset, delta_events

# [START asset]
ORDERS = delta_asset(f"{os.environ.get('AIRFLOW_VAR_LAKE', '/data/lake')}/orders", watch=True, poke_interval=30)
# [END asset]


# [START count_rows]
@task
def count_rows() -> dict[str, Any]:
    """Count the rows at the newest of the new versions. The worker reads the table without Spark."""
    from deltalite import DeltaTable

    events = delta_events(get_current_context(), ORDERS)
    if events.version is None:  # a person has triggered this run
        return {"versions": 0}
    table = DeltaTable(events[-1].table, version=events.version)
    return {
        "from_version": events.from_version,
        "version": events.version,
        "operations": list(events.operations),
        "rows": table.to_arrow().num_rows,
    }


# [END count_rows]


with DAG(
    dag_id="orders_on_change",
    doc_md=__doc__,
    schedule=[ORDERS],
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    count_rows()
