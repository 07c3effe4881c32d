"""The Airflow plugin: `macros.deltalite` in the templates of every DAG, and the page *Delta tables* in Airflow's UI.

Each process of Airflow loads this module, so it imports only what loads fast. The API server builds the page at the
first request.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowPlugin

from airflow_provider_deltalite.idempotency import app_id_of
from airflow_provider_deltalite.page.registration import external_views, fastapi_apps


class DeltaLitePlugin(AirflowPlugin):
    """The template functions and the page of this provider."""

    name = "deltalite"
    macros: list[Any] = [app_id_of]  # noqa: RUF012  the base class also declares lists
    fastapi_apps: list[Any] = fastapi_apps()
    external_views: list[Any] = external_views()
