"""Maintain one table on demand: the DAG behind the button *Start the maintenance* of the page *Delta tables*.

Name it in the setting `[deltalite] ui_maintenance_dag = table_maintenance`. The button triggers it with the address of
the table. The task optimizes the table, writes a checkpoint and vacuums, each step if it is due. A vacuum deletes files
that no version inside the table's retention (seven days by default) needs.

The button also passes `storage_conn_id`, the Airflow connection with which the page reads the table, if there is one.
This task does not need it: only the Spark job reads the table, with the credentials of Spark. An operator that reads
the table on the worker, such as `DeltaOptimizeOperator`, needs it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_deltalite.operators.delta import DeltaLakeMaintenanceOperator

# [START button]
with DAG(
    dag_id="table_maintenance",
    doc_md=__doc__,
    schedule=None,
    params={
        "table": Param("/data/lake/orders", type="string", minLength=1),
        "storage_conn_id": Param(None, type=["null", "string"], description="Not used by this task."),
    },
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    DeltaLakeMaintenanceOperator(task_id="maintain", tables=["{{ params.table }}"])
# [END button]
