"""The Airflow plugin that adds `macros.deltalite` to the templates of every DAG. Each process of Airflow loads it."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_deltalite.idempotency import app_id_of


class DeltaLitePlugin(AirflowPlugin):
    """The template functions of this provider."""

    name = "deltalite"
    macros: list[Any] = [app_id_of]  # noqa: RUF012  the base class also declares a list
