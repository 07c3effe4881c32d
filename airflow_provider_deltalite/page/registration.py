"""The page's entries in Airflow's menu and tabs, and its app, which the first request builds.

Every process of Airflow loads plugins, so this module imports neither FastAPI nor pyarrow. Airflow mounts the app in
the API server below `URL_PREFIX`, and shows the external views as frames. Airflow replaces the names in braces in the
addresses of the views. Airflow 3.1 does not encode the values, so they are parts of the path: a `+` of a run id in a
query would become a space.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import conf

URL_PREFIX = "/deltalite"
TASK_ROUTE = "delta-task"
"""The last part of the address of a task's tab in Airflow's UI."""
AIRFLOW_APP = "airflow_provider_deltalite.airflow_app"
"""The scope of a request has the app of Airflow's API server under this key."""
_SECTION = "deltalite"
_log = logging.getLogger(__name__)

Asgi = Callable[
    [MutableMapping[str, Any], Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]
]


def is_page_enabled() -> bool:
    """Whether the deployment shows the page: `[deltalite] ui_enabled`. An invalid setting counts as False."""
    try:
        return bool(conf.getboolean(_SECTION, "ui_enabled", fallback=False))
    except Exception as error:  # noqa: BLE001  Airflow's class for it differs between versions
        _log.warning("Omitting the page 'Delta tables': [deltalite] ui_enabled is not a boolean: %s", error)
        return False


def root_path() -> str:
    """Return the path of Airflow's UI without a slash at the end, such as `/airflow`, from `[api] base_url`.

    Raises:
        ValueError: `base_url` is not an address.
    """
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def fastapi_apps() -> list[dict[str, Any]]:
    """Return the app for the plugin; none if the page is switched off, or if `[api] base_url` is invalid."""
    if not is_page_enabled() or _valid_root_path() is None:
        return []
    return [{"name": "Delta tables", "app": LazyApp(), "url_prefix": URL_PREFIX}]


def external_views() -> list[dict[str, Any]]:
    """Return the menu entry and the tabs for the plugin; none if `fastapi_apps` returns no app."""
    root = _valid_root_path() if is_page_enabled() else None
    if root is None:
        return []
    base = root + URL_PREFIX
    icons = {"icon": f"{base}/static/icon.svg", "icon_dark_mode": f"{base}/static/icon-dark.svg"}
    views = (
        ("Delta tables", "nav", "delta-tables", "/lake"),
        ("Delta", "dag", "delta-dag", "/dag/{DAG_ID}"),
        ("Delta", "dag_run", "delta-run", "/dag-run/{DAG_ID}/{RUN_ID}"),
        ("Delta", "task_instance", TASK_ROUTE, "/task/{DAG_ID}/{TASK_ID}/{MAP_INDEX}/{RUN_ID}"),
    )
    return [
        {
            "name": name,
            "destination": destination,
            "url_route": route,
            "href": base + path,
            **icons,
            **({"category": "browse"} if destination == "nav" else {}),
        }
        for name, destination, route, path in views
    ]


def task_page(dag_id: str, run_id: str, task_id: str, map_index: int) -> str | None:
    """Return the address of a task's tab in Airflow's UI; None if the page is switched off, or has no known address."""
    base_url = conf.get("api", "base_url", fallback=None)
    if not base_url or not is_page_enabled() or _valid_root_path() is None:
        return None
    if urlsplit(base_url).scheme not in ("http", "https"):
        return None
    dag, run, task = (quote(part, safe="") for part in (dag_id, run_id, task_id))
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{base_url.rstrip('/')}/dags/{dag}/runs/{run}/tasks/{task}{mapped}/plugin/{TASK_ROUTE}"


def _valid_root_path() -> str | None:
    """Return the path of Airflow's UI, or None. Each process loads the plugin, so no setting may raise an error."""
    try:
        return root_path()
    except ValueError as error:
        _log.warning("Omitting the page 'Delta tables': [api] base_url is not an address: %s", error)
        return None


class LazyApp:
    """An ASGI app that imports and builds the real app at the first request."""

    def __init__(self) -> None:
        self._app: Asgi | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request."""
        app = self._app
        if app is None:
            async with self._lock:
                if self._app is None:
                    self._app = await asyncio.to_thread(_build)
                app = self._app
        # FastAPI replaces the app in the scope by the app of the page.
        await app({**scope, AIRFLOW_APP: scope.get("app")}, receive, send)


def _build() -> Asgi:
    from airflow_provider_deltalite.page.app import build_app
    from airflow_provider_deltalite.page.services import airflow_services

    app: Asgi = build_app(airflow_services())
    return app
