"""The description of this provider for Airflow, as one literal dictionary.

Airflow calls this function in each of its processes, so the module does not import Airflow. The keys are those of
Airflow's `provider_info.schema.json`. `package-name` must equal the canonical name of the distribution, with dashes:
Airflow compares the two.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, for the entry point `apache_airflow_provider`."""
    return {
        "package-name": "airflow-provider-deltalite",
        "name": "Delta Lake (deltalite)",
        "description": (
            "Idempotent Delta Lake operations as Airflow tasks, run by spark-submit, and sensors on table versions."
        ),
        "integrations": [
            {
                "integration-name": "Delta Lake",
                "external-doc-url": "https://delta.io/",
                "tags": ["software"],
            },
        ],
        "operators": [
            {
                "integration-name": "Delta Lake",
                "python-modules": ["airflow_provider_deltalite.operators.delta"],
            },
        ],
        "sensors": [
            {
                "integration-name": "Delta Lake",
                "python-modules": ["airflow_provider_deltalite.sensors.delta"],
            },
        ],
        "hooks": [
            {
                "integration-name": "Delta Lake",
                "python-modules": [
                    "airflow_provider_deltalite.hooks.delta",
                    "airflow_provider_deltalite.hooks.spark_submit",
                ],
            },
        ],
        "triggers": [
            {
                "integration-name": "Delta Lake",
                "python-modules": [
                    "airflow_provider_deltalite.triggers.delta",
                    "airflow_provider_deltalite.triggers.driver",
                ],
            },
        ],
        "extra-links": [
            "airflow_provider_deltalite.links.delta.SparkApplicationLink",
            "airflow_provider_deltalite.links.delta.DeltaCommitLink",
        ],
        "config": {
            "deltalite": {
                "description": "Settings of the Delta Lake provider.",
                "options": {
                    "namespace": {
                        "description": (
                            "The first part of every transaction identifier (app id) that tasks write into tables. "
                            "Give each Airflow deployment a different namespace. Two deployments that write to one "
                            "table with the same namespace and DAGs would skip each other's runs."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "airflow-production",
                        "default": "airflow",
                    },
                    "commit_link": {
                        "description": (
                            "The web address of a task's button 'Delta commit'. It may contain the fields {bucket}, "
                            "{key} (the commit's file in the bucket), {uri} (bucket and key with scheme), {table} and "
                            "{version}, which are percent-encoded. If the setting is empty, the button opens the tab "
                            "'Delta' of the task, and needs ui_enabled and [api] base_url. The button is missing if "
                            "the address is not http or https, because Airflow's UI opens no other addresses."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://console.aws.amazon.com/s3/object/{bucket}?prefix={key}",
                        "default": None,
                    },
                    "ui_enabled": {
                        "description": (
                            "Whether Airflow's UI has the page 'Delta tables', and the tabs 'Delta' of DAGs, DAG runs "
                            "and tasks. The page is a preview. Set the value for the API server and for the workers, "
                            "and restart them."
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "False",
                    },
                    "ui_tables": {
                        "description": (
                            "Addresses and patterns of tables that the page 'Delta tables' shows besides the assets of "
                            "DAGs and the tables that tasks wrote, with commas between them. Patterns are those of "
                            "`deltalite health`, such as s3://lake/*. A user with the right to read assets sees "
                            "these tables."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "s3://lake/*, /mnt/lake/**",
                        "default": None,
                    },
                    "ui_storage_conn_ids": {
                        "description": (
                            "The Airflow connections with which the page 'Delta tables' reads tables, as a JSON object "
                            "from the beginnings of addresses to connection ids. The longest beginning applies. The "
                            "connection of an asset's watcher, `storage_conn_id` in the extra of an asset, and "
                            "`storage_conn_id` of a task that wrote the table take precedence."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": '{"s3://lake": "aws_lake"}',
                        "default": None,
                    },
                    "ui_timeout": {
                        "description": (
                            "The time in seconds that the page 'Delta tables' waits for storage, up to 120. The list "
                            "of tables waits only a few seconds, unless it has no table to show yet."
                        ),
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "10",
                    },
                    "ui_preview": {
                        "description": (
                            "Whether the page of a version in 'Delta tables' can show rows, at most 100. A user also "
                            "needs the right to read the custom view 'Delta table rows', and the right to create "
                            "events of assets. Set the value for the API server, and restart it."
                        ),
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": None,
                        "default": "False",
                    },
                    "ui_maintenance_dag": {
                        "description": (
                            "The DAG that maintains one table. Pages of tables then have a button that starts it, for "
                            "users who may create its runs. The conf of the run has `table` (the address) and, if the "
                            "page reads the table with a connection, `storage_conn_id`. Set the value for the API "
                            "server, and restart it."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "table_maintenance",
                        "default": None,
                    },
                    "class_archive": {
                        "description": (
                            "Whether drivers on this worker start with an archive of Spark's classes. use: tasks use "
                            "an archive that `deltalite warm-up` made. auto: as use; after a job in local mode, a "
                            "worker without an archive also makes one in the background. off: tasks use and make no "
                            "archive."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "auto",
                        "default": "use",
                    },
                    "spark_log_level": {
                        "description": (
                            "The lowest level of Spark's lines in the logs of tasks: ALL, TRACE, DEBUG, INFO, WARN, "
                            "ERROR, FATAL or OFF. The log of a failed task also has the newest lines below this level, "
                            "in a folded group. spark.log.level in a task's `conf` takes precedence."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "INFO",
                        "default": "WARN",
                    },
                },
            },
        },
    }
