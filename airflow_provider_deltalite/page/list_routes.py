"""The routes that list tables: all tables, and those of a DAG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.known_tables import KnownTable, key_of, visible_tables
from airflow_provider_deltalite.page.lake_view import (
    DEFAULT_SORT,
    SORTS,
    LakeRow,
    lake_row,
    lake_view,
    matching_tables,
)
from airflow_provider_deltalite.page.rendering import page
from airflow_provider_deltalite.page.route_base import Routes, rights_of, seconds_left, wait
from airflow_provider_deltalite.page.run_view import shown_result

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.reading import Result
    from airflow_provider_deltalite.page.services import PageRights
    from deltalite.inspection.overview import TableMeasures, TableOverview

# The list waits this long for reads of tables, and longer if it has no values to show. A reload of the page shows the
# values of slower reads.
_WAIT_SECONDS = 2.0
# The wait if the cache has values of tables. The reads of other and of newer values go on in the background.
_WAIT_WITH_VALUES_SECONDS = 0.2
# A value older than this is read again.
_MAX_AGE_SECONDS = 60.0
# Meanwhile, the list shows a value up to this age as current.
_MAX_AGE_DURING_READ_SECONDS = 600.0
_LONGEST_SEARCH = 200
_RUNS_WITH_RESULTS = 3


class ListRoutes(Routes):
    """The routes that list tables."""

    async def home(self, request: Request) -> RedirectResponse:
        """Redirect to the list of tables."""
        return RedirectResponse(self.links(request).lake())

    async def lake(
        self, request: Request, q: str = "", sort: str = DEFAULT_SORT, order: str = "", page_number: int = 1
    ) -> HTMLResponse:
        """Show the tables that the user may see and that match the search `q`, on pages of 100."""
        sort = sort if sort in SORTS else DEFAULT_SORT
        search = q[:_LONGEST_SEARCH]
        is_ascending = order == "asc" or (order != "desc" and sort == "name")
        # The listings get at most half of the remaining time. The reads of tables need the other half.
        listing_seconds = min(_WAIT_SECONDS, seconds_left(request) / 2)
        await wait(request, self.table_list.start_listings(), max_seconds=listing_seconds)
        known, problems = await self.table_list.tables()
        tables = list((await run_in_threadpool(visible_tables, known, rights_of(request))).values())
        rows = await self._rows(request, await run_in_threadpool(matching_tables, tables, search))
        view = await run_in_threadpool(lake_view, rows, sort, is_ascending=is_ascending, page=page_number)
        may_read_assets = await run_in_threadpool(rights_of(request).may_read_assets)
        return page(
            "lake.html",
            await self.links_to_runs(request, [row.commit for row in view.rows]),
            view=view,
            search=search,
            sort=sort,
            is_ascending=is_ascending,
            problems=[*self.services.settings.problems, *problems] if may_read_assets else [],
            has_tables=bool(tables),
        )

    async def dag(self, request: Request, dag_id: str) -> HTMLResponse:
        """Show the tables of a DAG."""
        if not await run_in_threadpool(rights_of(request).may_read_dag, dag_id):
            raise HTTPException(403)
        known, _ = await self.table_list.tables()
        visible = await run_in_threadpool(visible_tables, known, rights_of(request))
        keys = await run_in_threadpool(self._keys_in_results, rights_of(request), dag_id)
        tables = [table for key, table in visible.items() if dag_id in table.dag_ids or key in keys]
        rows = await self._rows(request, tables)
        links = await self.links_to_runs(request, [row.commit for row in rows])
        view = lake_view(rows, DEFAULT_SORT, is_ascending=False, page=1)
        return page("dag.html", links, dag_id=dag_id, view=view)

    def _keys_in_results(self, rights: PageRights, dag_id: str) -> set[str]:
        """Return the keys of the tables in the results of the newest runs, if the user may read these results.

        A task that declares no outlets still names its table in its result.
        """
        if not (rights.may_read_runs(dag_id) and rights.may_read_xcoms(dag_id)):
            return set()
        database = self.services.database
        results = [
            shown_result(item.value)
            for run_id in database.newest_runs(dag_id, _RUNS_WITH_RESULTS)
            for item in database.results(dag_id, run_id)
        ]
        return {key for result in results if result is not None and (key := key_of(result.address)) is not None}

    async def _rows(self, request: Request, tables: Sequence[KnownTable]) -> list[LakeRow]:
        lookups = [
            self.services.tables.overview(table, max_age_seconds=_MAX_AGE_SECONDS, is_urgent=False) for table in tables
        ]
        reads = [read for lookup in lookups for read in lookup.reads]

        def has_values() -> bool:
            return any(lookup.result().value is not None for lookup in lookups)

        seconds = min(_WAIT_WITH_VALUES_SECONDS if has_values() else _WAIT_SECONDS, self.timeout_seconds)
        await wait(request, reads, max_seconds=seconds)
        if not has_values():  # the first view: nothing to show yet
            await wait(request, reads)
        schedules, now = await self.table_list.schedules(), datetime.now(UTC)
        results = [lookup.result(max_stale_seconds=_MAX_AGE_DURING_READ_SECONDS) for lookup in lookups]
        return [
            lake_row(
                table,
                result,
                self._measures_for_list(table, result),
                schedules=schedules,
                now=now,
            )
            for table, result in zip(tables, results, strict=True)
        ]

    def _measures_for_list(self, table: KnownTable, result: Result[TableOverview]) -> Result[TableMeasures] | None:
        """Return the read of the measures of a table with very many files. Start this read if it has not started.

        The result is None if the overview has the measures, or if the overview is not read yet.
        """
        overview = result.value
        if overview is None or overview.measures is not None:
            return None
        return self.services.tables.measures(table, overview, is_urgent=False).result()
