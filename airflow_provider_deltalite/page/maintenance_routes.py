"""The route that starts the maintenance of a table. It is the only route of the page that changes anything."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.maintenance_view import MaintenanceView, maintenance_conf, problem_of_dag
from airflow_provider_deltalite.page.rendering import page
from airflow_provider_deltalite.page.route_base import Routes, rights_of

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.known_tables import KnownTable

_log = logging.getLogger(__name__)
_MAX_FORM_BYTES = 4096
_NO_RIGHT = "You may not start this DAG. Ask an administrator of Airflow for the right to create its runs."
_INVALID_FORM = (
    "This page did not make the form for you, or the form is too old. Reload the page of the table, then try again."
)


class MaintenanceRoutes(Routes):
    """The button on the page of a table, and the route behind it."""

    async def start(self, request: Request, key: str) -> HTMLResponse | RedirectResponse:
        """Start the maintenance DAG for a table, and lead back to the table.

        Decide in this order:

        1. The table is unknown, the user may not see it, or the deployment names no DAG: not found.
        2. The user may not start the DAG: refused.
        3. The form is too large, or has no valid token: refused.
        4. The DAG is missing, broken or paused: refused with the reason.
        5. Airflow refuses the run: refused with Airflow's reason.
        """
        table = await self.find_table(request, key)
        dag_id, rights = self.services.settings.maintenance_dag, rights_of(request)
        if not dag_id:
            raise HTTPException(404)
        if not await run_in_threadpool(rights.may_start_runs, dag_id):
            return self._refused(request, table, 403, _NO_RIGHT)
        token = await _token(request)
        if not self.services.form_tokens.is_valid(token, rights.user_id, _action(table, dag_id)):
            return self._refused(request, table, 403, _INVALID_FORM)
        if problem := problem_of_dag(await run_in_threadpool(self.services.database.dag_state, dag_id)):
            return self._refused(request, table, 409, problem)
        answer = await self.services.start_run(request, self.services.airflow_path, dag_id, maintenance_conf(table))
        if not answer.run_id:
            _log.warning("Could not start %r for %r: %s", dag_id, table.address, answer.problem)
            return self._refused(request, table, 502 if answer.status < 400 else answer.status, answer.problem)  # noqa: PLR2004
        return RedirectResponse(self.links(request).started_run(table.key, answer.run_id), 303)

    async def button(self, request: Request, table: KnownTable, started_run: str) -> MaintenanceView | None:
        """Return the button for a table; None if the deployment names no DAG, or if the user may not start it.

        The address of the page names `started_run`. The button shows this run if it exists.
        """
        dag_id, rights = self.services.settings.maintenance_dag, rights_of(request)
        if not dag_id or not await run_in_threadpool(rights.may_start_runs, dag_id):
            return None
        database = self.services.database
        runs = await run_in_threadpool(database.existing_runs, [(dag_id, started_run)]) if started_run else frozenset()
        return MaintenanceView(
            dag_id=dag_id,
            token=self.services.form_tokens.token(rights.user_id, _action(table, dag_id)),
            problem=problem_of_dag(await run_in_threadpool(database.dag_state, dag_id)),
            started_run=started_run if (dag_id, started_run) in runs else "",
        )

    def _refused(self, request: Request, table: KnownTable, status: int, problem: str) -> HTMLResponse:
        return page(
            "message.html",
            self.links(request),
            status=status,
            title="The maintenance was not started",
            text=problem,
            may_log_in=status == 401,  # noqa: PLR2004
            table=table,
        )


def _action(table: KnownTable, dag_id: str) -> str:
    return f"start {dag_id} for {table.key}"


async def _token(request: Request) -> str:
    """Return the token of a form; an empty text without one.

    Raises:
        HTTPException: The form is too large.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise HTTPException(413)
    return parse_qs(body.decode("ascii", "replace")).get("token", [""])[0]
