"""The routes of one table: its overview, its measures, its columns and its versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from fastapi import HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.column_view import columns_view
from airflow_provider_deltalite.page.growth_view import growth_plots, readable_versions_text, version_times
from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.lake_view import freshness_of_overview, health_of
from airflow_provider_deltalite.page.maintenance_routes import MaintenanceRoutes
from airflow_provider_deltalite.page.measured_view import MeasuredView, measured_view
from airflow_provider_deltalite.page.preview_view import (
    NOT_ALLOWED,
    SWITCHED_OFF,
    PreviewView,
    RowChoice,
    preview_view,
    problem_of_conditions,
)
from airflow_provider_deltalite.page.rendering import page
from airflow_provider_deltalite.page.route_base import Routes, problem_of, rights_of, seconds_left, wait
from airflow_provider_deltalite.page.snippets import version_snippets
from airflow_provider_deltalite.page.table_view import explained_features, explained_properties, timeline

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.reading import Result
    from airflow_provider_deltalite.page.services import Services
    from airflow_provider_deltalite.page.table_list import TableList
    from deltalite.inspection.commit_entries import CommitEntry
    from deltalite.inspection.overview import TableOverview

_MAX_OVERVIEW_AGE_SECONDS = 2.0
# For a part that loads after its page, so that it usually has the version of the page.
_MAX_OVERVIEW_AGE_OF_LATE_PART_SECONDS = 60.0
# The page of a table shows the statistics of its columns later if they take longer.
_COLUMNS_WAIT_SECONDS = 1.0
# The page of a version leaves out the times of other versions if they take longer.
_TIMES_WAIT_SECONDS = 0.5
_COMMITS_PER_PAGE = 50
_LARGEST_VERSION = 2**63 - 1


class TableRoutes(Routes):
    """The routes of one table."""

    def __init__(self, services: Services, table_list: TableList, maintenance: MaintenanceRoutes) -> None:
        super().__init__(services, table_list)
        self._maintenance = maintenance

    async def table(
        self, request: Request, key: str, before: int | None = None, started: Annotated[str, Query(max_length=250)] = ""
    ) -> HTMLResponse:
        """Show a table: health, advice, versions, schema, properties and features.

        `started` is the run of the maintenance DAG that the user has just started.
        """
        table = await self.find_table(request, key)
        result = await self._overview(request, table, _MAX_OVERVIEW_AGE_SECONDS)
        overview = result.value
        if overview is None:
            return self._error_page(request, table, result)
        newest = overview.version if before is None else min(before - 1, overview.version)
        growth = self.services.tables.growth(table, overview)
        measured = self._measured(table, result)
        # A table with very many files gets its measures and then the statistics of its columns after its page.
        columns = None if measured.is_pending else self.services.tables.columns(table, overview)
        entries, note = await self._commits(request, table, overview.table_id, newest)
        await wait(request, growth.reads)
        if columns is not None and overview.measures is not None:
            await wait(request, columns.reads, max_seconds=_COLUMNS_WAIT_SECONDS)
        return page(
            "table.html",
            await self.links_to_runs(request, [*entries, overview.last_commit]),
            table=table,
            overview=overview,
            measured=measured,
            columns=columns_view(
                overview,
                None if columns is None else columns.result(),
                shows_values=await self._may_see_rows(request),
            ),
            freshness=freshness_of_overview(table, overview, await self.table_list.schedules(), datetime.now(UTC)),
            maintenance=await self._maintenance.button(request, table, started),
            plots=growth_plots(growth.result().value),
            readable_versions=readable_versions_text(growth.result().value),
            growth_note=problem_of(growth.result()),
            timeline=timeline(entries),
            timeline_note=note,
            is_first_page=newest == overview.version,
            older_before=entries[-1].version if entries and entries[-1].version > 0 else None,
            properties=explained_properties(overview),
            features=explained_features(overview),
        )

    async def measures(self, request: Request, key: str) -> HTMLResponse:
        """Show the parts of a table's page that need its measures. The status is 202 until the measures are read."""
        table = await self.find_table(request, key)
        result = await self._overview(request, table, _MAX_OVERVIEW_AGE_OF_LATE_PART_SECONDS)
        if result.value is None:
            raise HTTPException(404)
        await wait(request, self.services.tables.measures(table, result.value).reads)
        measured = self._measured(table, result)
        return page(
            "measured.html",
            self.links(request),
            status=202 if measured.is_pending else 200,
            table=table,
            measured=measured,
        )

    async def columns(self, request: Request, key: str) -> HTMLResponse:
        """Show the schema of a table with the statistics of its columns. The status is 202 until these are read."""
        table = await self.find_table(request, key)
        overview = (await self._overview(request, table, _MAX_OVERVIEW_AGE_OF_LATE_PART_SECONDS)).value
        if overview is None:
            raise HTTPException(404)
        statistics = self.services.tables.columns(table, overview)
        await wait(request, statistics.reads)
        columns = columns_view(overview, statistics.result(), shows_values=await self._may_see_rows(request))
        return page(
            "columns.html",
            self.links(request),
            status=202 if columns.is_pending else 200,
            table=table,
            overview=overview,
            columns=columns,
        )

    async def _overview(self, request: Request, table: KnownTable, max_age_seconds: float) -> Result[TableOverview]:
        """Read the overview of a table, and wait for it until the deadline of the request."""
        lookup = self.services.tables.overview(table, max_age_seconds=max_age_seconds)
        await wait(request, lookup.reads)
        return lookup.result()

    def _error_page(self, request: Request, table: KnownTable, result: Result[TableOverview]) -> HTMLResponse:
        health, reason = health_of(result)
        return page("table_error.html", self.links(request), table=table, health=health, reason=reason)

    async def _may_see_rows(self, request: Request) -> bool:
        """Whether the deployment shows rows, and the user has the right to see them."""
        return self.services.settings.shows_rows and await run_in_threadpool(rights_of(request).may_read_rows)

    def _measured(self, table: KnownTable, result: Result[TableOverview]) -> MeasuredView:
        """Return the parts of a page that need measures. If the measures are missing, start to read them."""
        overview = result.value
        measures = None
        if overview is not None and overview.measures is None:
            measures = self.services.tables.measures(table, overview).result()
        return measured_view(table, result, measures)

    async def choose_version(
        self,
        request: Request,
        key: str,
        version: int,
        rows: str = "",
        where: Annotated[list[str] | None, Query()] = None,
    ) -> RedirectResponse:
        """Redirect a form to the page of the version that the user entered. See `version` for the parameters."""
        table = await self.find_table(request, key)
        conditions = [condition for condition in where or () if condition.strip()]
        address = self.links(request).version(table.key, version, rows=RowChoice.of(rows), where=conditions)
        return RedirectResponse(address + ("#rows" if rows else ""), status_code=303)

    async def version(
        self,
        request: Request,
        key: str,
        version: int,
        rows: str = "",
        where: Annotated[list[str] | None, Query()] = None,
    ) -> HTMLResponse:
        """Show a version: its commit, what changed, texts to copy, and rows if the user asks for them and may see them.

        `rows` is a `RowChoice`, and `where` are conditions on the rows.
        """
        table = await self.find_table(request, key)
        result = await self._overview(request, table, _MAX_OVERVIEW_AGE_SECONDS)
        overview = result.value
        if overview is None:
            return self._error_page(request, table, result)
        if not 0 <= version <= overview.version:
            raise HTTPException(404)
        preview = await self._preview(request, table, overview.table_id, version, where or (), RowChoice.of(rows))
        lookup = self.services.tables.changes(table, overview.table_id, version)
        growth = self.services.tables.growth(table, overview, is_urgent=False)
        await wait(request, lookup.reads)
        changes = lookup.result()
        await wait(request, growth.reads, max_seconds=_TIMES_WAIT_SECONDS)
        return page(
            "version.html",
            await self.links_to_runs(request, [changes.value.commit if changes.value else None]),
            table=table,
            version=version,
            newest=overview.version,
            version_times=version_times(growth.result().value),
            changes=changes.value,
            problem=problem_of(changes),
            preview=preview,
            snippets=version_snippets(table, version, is_newest=version == overview.version),
        )

    async def _preview(
        self,
        request: Request,
        table: KnownTable,
        table_id: str,
        version: int,
        where: Sequence[str],
        choice: RowChoice,
    ) -> PreviewView:
        """Return the rows of a version if the user asks for them, or the sentence why there are none."""
        if not self.services.settings.shows_rows:
            return PreviewView(refusal=SWITCHED_OFF)
        if not await run_in_threadpool(rights_of(request).may_read_rows):
            return PreviewView(refusal=NOT_ALLOWED)
        if choice is RowChoice.NONE:
            return PreviewView()
        conditions = tuple(condition.strip() for condition in where if condition.strip())
        if problem := problem_of_conditions(conditions):
            return PreviewView(choice=choice, problem=problem)
        seconds = seconds_left(request)
        is_of_changes = choice is RowChoice.CHANGED
        lookup = self.services.tables.rows(
            table, table_id, version, conditions, is_of_changes=is_of_changes, max_seconds=seconds
        )
        await wait(request, lookup.reads)
        return preview_view(lookup.result(), choice, conditions, seconds=seconds)

    async def _commits(
        self, request: Request, table: KnownTable, table_id: str, newest: int
    ) -> tuple[tuple[CommitEntry, ...], str]:
        """Return the commits of a page, and a note if they are not known."""
        if newest < 0:
            return (), ""
        lookup = self.services.tables.commits(
            table, table_id, up_to=min(newest, _LARGEST_VERSION), limit=_COMMITS_PER_PAGE
        )
        await wait(request, lookup.reads)
        result = lookup.result()
        return result.value or (), problem_of(result)
