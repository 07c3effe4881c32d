"""The app of the page: its routes, logins, errors and headers.

Each route loads values, builds a view and renders a template. All of them only read, except the POST of
`maintenance_routes.py`.

Every route needs a logged-in user; static files need none. A request names a table by a key that is looked up in the
list of known tables, so a request cannot make the server open an address. A key that is unknown and a table that the
user may not see give the same answer. Blocking calls to Airflow run in the server's threads, and the threads of
`read_pool.py` read storage.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_provider_deltalite.page.links import Links
from airflow_provider_deltalite.page.list_routes import ListRoutes
from airflow_provider_deltalite.page.maintenance_routes import MaintenanceRoutes
from airflow_provider_deltalite.page.rendering import FOLDER, SECURITY_HEADERS, page
from airflow_provider_deltalite.page.route_base import start_deadline
from airflow_provider_deltalite.page.run_routes import RunRoutes
from airflow_provider_deltalite.page.table_list import TableList
from airflow_provider_deltalite.page.table_routes import TableRoutes

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.services import Services

_log = logging.getLogger(__name__)
_MESSAGES = {
    401: ("You are not logged in", "Log in to Airflow, then open this page again."),
    403: ("You may not see this", "Ask an administrator of Airflow for the right to read the DAG or the asset."),
    404: ("Not found", "There is no such table, version or task, or you may not see it."),
    422: ("This address is not valid", "Open the page from Airflow's menu."),
    500: ("The page failed", "The log of the API server has the reason."),
}


def build_app(services: Services) -> FastAPI:
    """Return the app with its routes and headers."""

    async def authenticate(request: Request, user: Any = Depends(services.user_of)) -> None:  # noqa: B008  FastAPI's way
        request.state.deltalite_rights = await run_in_threadpool(services.rights_of, user)

    app = FastAPI(
        title="Delta tables", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(authenticate)]
    )
    table_list = TableList(services)
    lists, runs, maintenance = (
        ListRoutes(services, table_list),
        RunRoutes(services, table_list),
        MaintenanceRoutes(services, table_list),
    )
    tables = TableRoutes(services, table_list, maintenance)
    options: dict[str, Any] = {"methods": ["GET"], "response_class": HTMLResponse, "response_model": None}
    app.add_api_route("/", lists.home, **options)
    app.add_api_route("/lake", lists.lake, **options)
    app.add_api_route("/tables/{key}", tables.table, **options)
    app.add_api_route("/tables/{key}/measures", tables.measures, **options)
    app.add_api_route("/tables/{key}/columns", tables.columns, **options)
    app.add_api_route("/tables/{key}/maintenance", maintenance.start, **{**options, "methods": ["POST"]})
    app.add_api_route("/tables/{key}/versions", tables.choose_version, **options)
    app.add_api_route("/tables/{key}/versions/{version}", tables.version, **options)
    app.add_api_route("/dag/{dag_id}", lists.dag, **options)
    app.add_api_route("/dag-run/{dag_id}/{run_id:path}", runs.dag_run, **options)
    app.add_api_route("/task/{dag_id}/{task_id}/{map_index}/{run_id:path}", runs.task, **options)
    app.mount("/static", StaticFiles(directory=FOLDER / "static"))

    async def show_error(request: Request, error: Exception) -> HTMLResponse:
        status = error.status_code if isinstance(error, StarletteHTTPException) else 422
        return _message(lists.links(request), status)

    async def show_failure(request: Request, error: Exception) -> HTMLResponse:
        _log.error("Could not answer %r", request.url.path, exc_info=error)
        return _message(lists.links(request), 500)

    app.add_exception_handler(StarletteHTTPException, show_error)
    app.add_exception_handler(RequestValidationError, show_error)

    @app.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        request.state.deltalite_path = request.scope.get("root_path", "")  # the mount of static files changes it
        start_deadline(request, services.settings.timeout_seconds)
        try:
            response = await call_next(request)
        except Exception as error:  # noqa: BLE001  the page shows no details of an unexpected error
            return await show_failure(request, error)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app


def _message(links: Links, status: int) -> HTMLResponse:
    title, text = _MESSAGES.get(status, _MESSAGES[422 if status < 500 else 500])  # noqa: PLR2004
    return page("message.html", links, status=status, title=title, text=text, may_log_in=status == 401, table=None)  # noqa: PLR2004
