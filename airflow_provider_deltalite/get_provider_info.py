"""What Airflow is told about this provider: one literal dictionary.

Airflow calls this function in every one of its processes, so the module imports nothing, least of all Airflow. The keys
are those of Airflow's `provider_info.schema.json`; `package-name` is the canonical name of the distribution, with
dashes, because Airflow compares the two.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's description, found through the entry point `apache_airflow_provider`."""
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
                "python-modules": ["airflow_provider_deltalite.triggers.delta"],
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
                            "The first part of every transaction identifier that tasks write into tables. Give each "
                            "Airflow deployment its own: two deployments that write to one table under the same "
                            "namespace would take each other's runs for their own, and skip them."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "airflow-production",
                        "default": "airflow",
                    },
                    "commit_link": {
                        "description": (
                            "Where the button 'Delta commit' of a task leads: a web address with the fields {bucket}, "
                            "{key} (the commit's file in it), {uri} (both, with scheme), {table} and {version}, "
                            "percent-encoded. There is no button without it, or if it gives no http or https "
                            "address: Airflow's UI opens no others."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://console.aws.amazon.com/s3/object/{bucket}?prefix={key}",
                        "default": None,
                    },
                    "spark_log_level": {
                        "description": (
                            "The lowest level of Spark's lines in the logs of tasks: ALL, TRACE, DEBUG, INFO, WARN, "
                            "ERROR, FATAL or OFF. The log of a failed task has the newest lines below it in a folded "
                            "group. A task that sets spark.log.level in its `conf` shows Spark's lines from that level."
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
