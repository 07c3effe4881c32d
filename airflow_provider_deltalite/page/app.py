"""The routes of the page. Each loads values, builds a view and renders a template; all of them only read.

Every route needs a logged-in user. A request names a table by a key that is looked up in the list of known tables, so
a request cannot make the server open an address. A key that is unknown and a table that the user may not see give the
same answer. Blocking calls to Airflow run in the server's threads, and storage is read by the pool in `reading.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_provider_deltalite.page.growth_view import growth_plots
from airflow_provider_deltalite.page.known_tables import (
    KnownTable,
    TaskName,
    key_of,
    visible_table,
    visible_tables,
)
from airflow_provider_deltalite.page.lake_view import (
    DEFAULT_SORT,
    SORTS,
    Health,
    LakeRow,
    health_of,
    lake_row,
    lake_view,
    matching_tables,
)
from airflow_provider_deltalite.page.links import Links, runs_of
from airflow_provider_deltalite.page.measured_view import MeasuredView, measured_view
from airflow_provider_deltalite.page.preview_view import (
    NOT_ALLOWED,
    SWITCHED_OFF,
    PreviewView,
    preview_view,
    problem_of_conditions,
)
from airflow_provider_deltalite.page.read_pool import wait_for_reads
from airflow_provider_deltalite.page.rendering import FOLDER, SECURITY_HEADERS, page
from airflow_provider_deltalite.page.run_view import ShownResult, attempt_rows, shown_result
from airflow_provider_deltalite.page.snippets import version_snippets
from airflow_provider_deltalite.page.table_list import TableList
from airflow_provider_deltalite.page.table_view import explained_features, explained_properties, timeline

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.read_pool import Read
    from airflow_provider_deltalite.page.reading import Lookup, Result
    from airflow_provider_deltalite.page.services import PageReader, Services
    from deltalite.inspection.commit_entries import CommitEntry
    from deltalite.inspection.overview import TableMeasures, TableOverview

_log = logging.getLogger(__name__)
# A list of many tables answers soon, and shows the other rows after a reload.
_LAKE_SECONDS = 2.0
# A list that has values of tables shows them, and reads the others and the newer values in the background.
_LAKE_AGAIN_SECONDS = 0.2
_LAKE_STALE_SECONDS = 600.0
_LAKE_AGE_SECONDS = 60.0
_TABLE_AGE_SECONDS = 2.0
# The rest of a page belongs to the version of the page, unless it was open for long.
_MEASURED_AGE_SECONDS = 60.0
_COMMITS_PER_PAGE = 50
_LARGEST_VERSION = 2**63 - 1
_LONGEST_SEARCH = 200
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
        request.state.deltalite_reader = await run_in_threadpool(services.reader_of, user)

    app = FastAPI(
        title="Delta tables", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(authenticate)]
    )
    pages = _Pages(services)
    options: dict[str, Any] = {"methods": ["GET"], "response_class": HTMLResponse, "response_model": None}
    app.add_api_route("/", pages.home, **options)
    app.add_api_route("/lake", pages.lake, **options)
    app.add_api_route("/tables/{key}", pages.table, **options)
    app.add_api_route("/tables/{key}/measures", pages.measures, **options)
    app.add_api_route("/tables/{key}/versions/{version}", pages.version, **options)
    app.add_api_route("/dag/{dag_id}", pages.dag, **options)
    app.add_api_route("/dag-run/{dag_id}/{run_id:path}", pages.dag_run, **options)
    app.add_api_route("/task/{dag_id}/{task_id}/{map_index}/{run_id:path}", pages.task, **options)
    app.mount("/static", StaticFiles(directory=FOLDER / "static"))

    async def show_error(request: Request, error: Exception) -> HTMLResponse:
        status = error.status_code if isinstance(error, StarletteHTTPException) else 422
        return _message(pages.links(request), status)

    async def show_failure(request: Request, error: Exception) -> HTMLResponse:
        _log.error("Could not answer %r", request.url.path, exc_info=error)
        return _message(pages.links(request), 500)

    app.add_exception_handler(StarletteHTTPException, show_error)
    app.add_exception_handler(RequestValidationError, show_error)

    @app.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Any]]) -> Any:
        request.state.deltalite_path = request.scope.get("root_path", "")  # the mount of static files changes it
        request.state.deltalite_deadline = monotonic() + services.settings.timeout_seconds
        try:
            response = await call_next(request)
        except Exception as error:  # noqa: BLE001  the page shows no details of an unexpected error
            return await show_failure(request, error)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app


class _Pages:
    """The functions of the routes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._seconds = services.settings.timeout_seconds
        self._list = TableList(services)

    def links(self, request: Request) -> Links:
        """Return the addresses for a request, without runs."""
        return Links(app=request.state.deltalite_path, airflow=self._services.airflow_path)

    async def home(self, request: Request) -> RedirectResponse:
        """Lead to the list of tables."""
        return RedirectResponse(self.links(request).lake())

    async def lake(
        self, request: Request, q: str = "", sort: str = DEFAULT_SORT, order: str = "", page_number: int = 1
    ) -> HTMLResponse:
        """Show all tables that the user may see."""
        sort = sort if sort in SORTS else DEFAULT_SORT
        search = q[:_LONGEST_SEARCH]
        is_ascending = order == "asc" or (order != "desc" and sort == "name")
        # The other half of the time is for the tables.
        await wait_for_reads(self._list.first_listings(), min(_LAKE_SECONDS, _rest(request) / 2))
        known, problems = await self._list.tables()
        tables = list((await run_in_threadpool(visible_tables, known, _reader(request))).values())
        rows = await self._rows(request, await run_in_threadpool(matching_tables, tables, search))
        view = await run_in_threadpool(lake_view, rows, sort, is_ascending=is_ascending, page=page_number)
        may_read_assets = await run_in_threadpool(_reader(request).may_read_assets)
        return page(
            "lake.html",
            await self._links_to_runs(request, [row.commit for row in view.rows]),
            view=view,
            search=search,
            sort=sort,
            is_ascending=is_ascending,
            problems=[*self._services.settings.problems, *problems] if may_read_assets else [],
            has_tables=bool(tables),
        )

    async def table(self, request: Request, key: str, before: int | None = None) -> HTMLResponse:
        """Show a table: health, advice, versions, schema, properties and features."""
        table = await self._open_table(request, key)
        lookup = self._services.tables.overview(table, max_age_seconds=_TABLE_AGE_SECONDS)
        await _wait(request, lookup.reads)
        result = lookup.result()
        overview = result.value
        if overview is None:
            health, reason = health_of(result, seconds=self._seconds)
            return page("table_error.html", self.links(request), table=table, health=health, reason=reason)
        newest = overview.version if before is None else min(before - 1, overview.version)
        growth = self._services.tables.growth(table, overview)
        entries, note = await self._commits(request, table, overview.table_id, newest)
        await _wait(request, growth.reads)
        return page(
            "table.html",
            await self._links_to_runs(request, [*entries, overview.last_commit]),
            table=table,
            overview=overview,
            measured=self._measured(table, result),
            plots=growth_plots(growth.result().value),
            growth_note=_problem(growth.result(), self._seconds),
            timeline=timeline(entries),
            timeline_note=note,
            is_first_page=newest == overview.version,
            older_before=entries[-1].version if entries and entries[-1].version > 0 else None,
            properties=explained_properties(overview),
            features=explained_features(overview),
        )

    async def measures(self, request: Request, key: str) -> HTMLResponse:
        """Show the parts of a table's page that need its measures, when they are there; 202 otherwise."""
        table = await self._open_table(request, key)
        lookup = self._services.tables.overview(table, max_age_seconds=_MEASURED_AGE_SECONDS)
        await _wait(request, lookup.reads)
        result = lookup.result()
        if result.value is None:
            raise HTTPException(404)
        await _wait(request, self._measures(table, result.value).reads)
        measured = self._measured(table, result)
        return page(
            "measured.html",
            self.links(request),
            status=202 if measured.is_pending else 200,
            table=table,
            measured=measured,
        )

    def _measures(self, table: KnownTable, overview: TableOverview, *, is_urgent: bool = True) -> Lookup[TableMeasures]:
        return self._services.tables.measures(table, overview, is_urgent=is_urgent)

    def _measured(self, table: KnownTable, result: Result[TableOverview]) -> MeasuredView:
        """Return the parts of a page that need measures by now. Starts the read of measures that are not there."""
        overview = result.value
        lookup = None if overview is None or overview.measures is not None else self._measures(table, overview)
        return measured_view(table, result, None if lookup is None else lookup.result(), seconds=self._seconds)

    async def version(
        self,
        request: Request,
        key: str,
        version: int,
        rows: str = "",
        where: Annotated[list[str] | None, Query()] = None,
    ) -> HTMLResponse:
        """Show a version: its commit, what changed, texts to copy, and rows if the user asks for them and may see them.

        `where` are conditions on the rows.
        """
        table = await self._open_table(request, key)
        overview_lookup = self._services.tables.overview(table, max_age_seconds=_TABLE_AGE_SECONDS)
        await _wait(request, overview_lookup.reads)
        result = overview_lookup.result()
        if result.value is None:
            health, reason = health_of(result, seconds=self._seconds)
            return page("table_error.html", self.links(request), table=table, health=health, reason=reason)
        if not 0 <= version <= result.value.version:
            raise HTTPException(404)
        preview = await self._preview(request, table, result.value.table_id, version, where or (), is_wanted=bool(rows))
        lookup = self._services.tables.changes(table, result.value.table_id, version)
        await _wait(request, lookup.reads)
        changes = lookup.result()
        return page(
            "version.html",
            await self._links_to_runs(request, [changes.value.commit if changes.value else None]),
            table=table,
            version=version,
            newest=result.value.version,
            changes=changes.value,
            problem=_problem(changes, self._seconds),
            preview=preview,
            snippets=version_snippets(table, version, is_newest=version == result.value.version),
        )

    async def _preview(
        self, request: Request, table: KnownTable, table_id: str, version: int, where: Sequence[str], *, is_wanted: bool
    ) -> PreviewView:
        """Return the rows of a version if the user asks for them, or the sentence why there are none."""
        if not self._services.settings.shows_rows:
            return PreviewView(refusal=SWITCHED_OFF)
        if not await run_in_threadpool(_reader(request).may_read_rows):
            return PreviewView(refusal=NOT_ALLOWED)
        if not is_wanted:
            return PreviewView()
        conditions = tuple(condition.strip() for condition in where if condition.strip())
        if problem := problem_of_conditions(conditions):
            return PreviewView(is_shown=True, problem=problem)
        seconds = _rest(request)
        lookup = self._services.tables.rows(table, table_id, version, conditions, max_seconds=seconds)
        await _wait(request, lookup.reads)
        return preview_view(lookup.result(), conditions, seconds=seconds)

    async def dag(self, request: Request, dag_id: str) -> HTMLResponse:
        """Show the tables of a DAG."""
        if not await run_in_threadpool(_reader(request).may_read_dag, dag_id):
            raise HTTPException(403)
        known, _ = await self._list.tables()
        visible = await run_in_threadpool(visible_tables, known, _reader(request))
        tables = [table for table in visible.values() if dag_id in table.dag_ids]
        rows = await self._rows(request, tables)
        links = await self._links_to_runs(request, [row.commit for row in rows])
        view = lake_view(rows, DEFAULT_SORT, is_ascending=False, page=1)
        return page("dag.html", links, dag_id=dag_id, view=view)

    async def dag_run(self, request: Request, dag_id: str, run_id: str) -> HTMLResponse:
        """Show what the tasks of a DAG run did to tables."""
        reader = _reader(request)
        if not await run_in_threadpool(lambda: reader.may_read_runs(dag_id) and reader.may_read_xcoms(dag_id)):
            raise HTTPException(403)
        task_results = await run_in_threadpool(self._services.database.results, dag_id, run_id)
        known, _ = await self._list.tables()
        rows = []
        for task_result in task_results:
            result = shown_result(task_result.value)
            if result is not None:
                table = await self._table_of_result(reader, known, result)
                rows.append((task_result.task_id, task_result.map_index, result, table))
        return page("dag_run.html", self.links(request), dag_id=dag_id, run_id=run_id, rows=rows)

    async def task(self, request: Request, dag_id: str, task_id: str, map_index: str, run_id: str) -> HTMLResponse:
        """Show what a task instance did: its attempts, and for each table its version, metrics, sources and audits.

        Airflow's UI leaves the name in braces in the address of a task that is not mapped.
        """
        reader, index = _reader(request), int(map_index) if map_index.isdecimal() and len(map_index) < 10 else -1  # noqa: PLR2004
        if not await run_in_threadpool(reader.may_read_tasks, dag_id):
            raise HTTPException(403)
        database = self._services.database
        attempts = await run_in_threadpool(database.attempts, dag_id, run_id, task_id, index)
        result: ShownResult | None = None
        if await run_in_threadpool(reader.may_read_xcoms, dag_id):
            values = await run_in_threadpool(database.results, dag_id, run_id, task_id, index)
            result = next(filter(None, (shown_result(item.value) for item in values)), None)
        known, _ = await self._list.tables()
        tables = []
        if any(attempt.start for attempt in attempts):  # otherwise there is no commit to look for
            tables = await self._tables_of_task(reader, known, TaskName(dag_id=dag_id, task_id=task_id), result)
        since_ms = min((int(item.start.timestamp() * 1000) for item in attempts if item.start), default=0)
        lookups = [
            self._services.tables.commits_of_run(
                table, dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=index, since_ms=since_ms
            )
            for table in tables
        ]
        await _wait(request, [read for lookup in lookups for read in lookup.reads])
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
            tables=[(table, item.value or (), _problem(item, self._seconds)) for table, item in read_tables],
        )

    async def _open_table(self, request: Request, key: str) -> KnownTable:
        """Return a known table that the user may see. Raises `HTTPException`."""
        known, _ = await self._list.tables()
        if key not in known:  # the first listing of a pattern may have it
            await _wait(request, self._list.first_listings())
            known, _ = await self._list.tables()
        table = known.get(key)
        visible = None if table is None else await run_in_threadpool(visible_table, table, _reader(request))
        if visible is None:
            raise HTTPException(404)
        return visible

    async def _rows(self, request: Request, tables: Sequence[KnownTable]) -> list[LakeRow]:
        lookups = [
            self._services.tables.overview(table, max_age_seconds=_LAKE_AGE_SECONDS, is_urgent=False)
            for table in tables
        ]
        reads = [read for lookup in lookups for read in lookup.reads]

        def has_values() -> bool:
            return any(lookup.result().value is not None for lookup in lookups)

        seconds = min(_LAKE_AGAIN_SECONDS if has_values() else _LAKE_SECONDS, self._seconds)
        await wait_for_reads(reads, min(seconds, _rest(request)))
        if not has_values():  # the first view: nothing to show yet
            await _wait(request, reads)
            seconds = self._seconds
        results = [lookup.result(max_stale_seconds=_LAKE_STALE_SECONDS) for lookup in lookups]
        return [
            lake_row(table, result, self._measures_for_list(table, result), seconds=seconds)
            for table, result in zip(tables, results, strict=True)
        ]

    def _measures_for_list(self, table: KnownTable, result: Result[TableOverview]) -> Result[TableMeasures] | None:
        """Return the measures by now of a table with very many files, and start their read."""
        overview = result.value
        if overview is None or overview.measures is not None:
            return None
        return self._measures(table, overview, is_urgent=False).result()

    async def _commits(
        self, request: Request, table: KnownTable, table_id: str, newest: int
    ) -> tuple[tuple[CommitEntry, ...], str]:
        """Return the commits of a page, and a note if they are not known."""
        if newest < 0:
            return (), ""
        lookup = self._services.tables.commits(
            table, table_id, up_to=min(newest, _LARGEST_VERSION), limit=_COMMITS_PER_PAGE
        )
        await _wait(request, lookup.reads)
        result = lookup.result()
        return result.value or (), _problem(result, self._seconds)

    async def _links_to_runs(self, request: Request, entries: Sequence[CommitEntry | None]) -> Links:
        links, runs = self.links(request), runs_of(entries)
        existing = await run_in_threadpool(self._services.database.existing_runs, runs) if runs else frozenset()
        return Links(app=links.app, airflow=links.airflow, runs=existing)

    async def _table_of_result(
        self, reader: PageReader, known: dict[str, KnownTable], result: ShownResult
    ) -> KnownTable | None:
        table = known.get(key_of(result.address) or "")
        return None if table is None else await run_in_threadpool(visible_table, table, reader)

    async def _tables_of_task(
        self, reader: PageReader, known: dict[str, KnownTable], task: TaskName, result: ShownResult | None
    ) -> list[KnownTable]:
        """Return the table of the result, or without a result the tables among the outlets of the task."""
        if result is not None:
            table = await self._table_of_result(reader, known, result)
            return [] if table is None else [table]
        candidates = [item for item in known.values() if task in item.producers]
        visible = [await run_in_threadpool(visible_table, item, reader) for item in candidates]
        return [item for item in visible if item is not None]


def _reader(request: Request) -> PageReader:
    reader: PageReader = request.state.deltalite_reader
    return reader


def _rest(request: Request) -> float:
    """Return the seconds that the request may still wait for storage; a request has one deadline for all its waits."""
    deadline: float = request.state.deltalite_deadline
    return max(0.0, deadline - monotonic())


async def _wait(request: Request, reads: Iterable[Read[Any]]) -> None:
    await wait_for_reads(reads, _rest(request))


def _problem(result: Any, seconds: float) -> str:
    """Return a sentence about a read without a value; an empty text if there is a value."""
    if result.value is not None:
        return ""
    health, reason = health_of(result, seconds=seconds)
    return "The table has no commit yet." if health is Health.MISSING else reason


def _message(links: Links, status: int) -> HTMLResponse:
    title, text = _MESSAGES.get(status, _MESSAGES[422 if status < 500 else 500])  # noqa: PLR2004
    return page("message.html", links, status=status, title=title, text=text, may_log_in=status == 401)  # noqa: PLR2004
