"""The routes of a DAG run and of a task instance: what they did to tables."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.known_tables import KnownTable, TaskName, key_of, visible_table
from airflow_provider_deltalite.page.rendering import page
from airflow_provider_deltalite.page.route_base import Routes, problem_of, rights_of, wait
from airflow_provider_deltalite.page.run_view import (
    BAR_WIDTH,
    ShownResult,
    attempt_rows,
    phases_of_last_attempt,
    shown_result,
)

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.services import PageRights


class RunRoutes(Routes):
    """The routes of a DAG run and of a task instance."""

    async def dag_run(self, request: Request, dag_id: str, run_id: str) -> HTMLResponse:
        """Show what the tasks of a DAG run did to tables."""
        rights = rights_of(request)
        if not await run_in_threadpool(lambda: rights.may_read_runs(dag_id) and rights.may_read_xcoms(dag_id)):
            raise HTTPException(403)
        task_results = await run_in_threadpool(self.services.database.results, dag_id, run_id)
        known, _ = await self.table_list.tables()
        rows = []
        for task_result in task_results:
            result = shown_result(task_result.value)
            if result is not None:
                table = await self._table_of_result(rights, known, result)
                rows.append((task_result.task_id, task_result.map_index, result, table))
        return page("dag_run.html", self.links(request), dag_id=dag_id, run_id=run_id, rows=rows)

    async def task(self, request: Request, dag_id: str, task_id: str, map_index: str, run_id: str) -> HTMLResponse:
        """Show what a task instance did: its attempts, and for each table its version, metrics, sources and audits.

        If the task is not mapped, `map_index` is the text `{MAP_INDEX}`, because Airflow's UI does not replace it.
        """
        rights, index = rights_of(request), int(map_index) if map_index.isdecimal() and len(map_index) < 10 else -1  # noqa: PLR2004
        if not await run_in_threadpool(rights.may_read_tasks, dag_id):
            raise HTTPException(403)
        database = self.services.database
        attempts = await run_in_threadpool(database.attempts, dag_id, run_id, task_id, index)
        result: ShownResult | None = None
        stored_at: datetime | None = None
        if await run_in_threadpool(rights.may_read_xcoms, dag_id):
            values = await run_in_threadpool(database.results, dag_id, run_id, task_id, index)
            results = ((shown, item.stored_at) for item in values if (shown := shown_result(item.value)) is not None)
            result, stored_at = next(results, (None, None))
        known, _ = await self.table_list.tables()
        tables = []
        if any(attempt.start for attempt in attempts):  # otherwise there is no commit to look for
            tables = await self._tables_of_task(rights, known, TaskName(dag_id=dag_id, task_id=task_id), result)
        since_ms = min((int(item.start.timestamp() * 1000) for item in attempts if item.start), default=0)
        lookups = [
            self.services.tables.commits_of_run(
                table, dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index, since_ms=since_ms
            )
            for table in tables
        ]
        await wait(request, [read for lookup in lookups for read in lookup.reads])
        read_tables = [(table, lookup.result()) for table, lookup in zip(tables, lookups, strict=True)]
        entries = [entry for _, table_result in read_tables for entry in table_result.value or ()]
        return page(
            "task.html",
            self.links(request),
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            map_index=index,
            attempts=attempt_rows(attempts, entries, result),
            result=result,
            phases=phases_of_last_attempt(attempts, result, stored_at),
            bar_width=BAR_WIDTH,
            tables=[(table, item.value or (), problem_of(item)) for table, item in read_tables],
        )

    async def _table_of_result(
        self, rights: PageRights, known: dict[str, KnownTable], result: ShownResult
    ) -> KnownTable | None:
        table = known.get(key_of(result.address) or "")
        return None if table is None else await run_in_threadpool(visible_table, table, rights)

    async def _tables_of_task(
        self, rights: PageRights, known: dict[str, KnownTable], task: TaskName, result: ShownResult | None
    ) -> list[KnownTable]:
        """Return the table of the result, if it is known and the user may see it.

        Without a result, return the known tables that the task has as outlets or has written in an earlier run.
        """
        if result is not None:
            table = await self._table_of_result(rights, known, result)
            return [] if table is None else [table]
        candidates = [item for item in known.values() if task in item.producers]
        visible = [await run_in_threadpool(visible_table, item, rights) for item in candidates]
        return [item for item in visible if item is not None]
