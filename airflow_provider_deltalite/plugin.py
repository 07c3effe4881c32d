"""What templates of every DAG can use: `macros.deltalite`, loaded by Airflow in each of its processes."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_deltalite.idempotency import app_id_of


class DeltaLitePlugin(AirflowPlugin):
    """The functions of this provider for templates."""

    name = "deltalite"
    macros: list[Any] = [app_id_of]  # noqa: RUF012  as the base class has it
