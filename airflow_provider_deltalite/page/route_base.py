"""The base class of all routes, with the services and the known tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.known_tables import KnownTable, visible_table
from airflow_provider_deltalite.page.lake_view import Health, health_of
from airflow_provider_deltalite.page.links import Links, runs_of
from airflow_provider_deltalite.page.read_pool import wait_for_reads

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.read_pool import Read
    from airflow_provider_deltalite.page.services import PageRights, Services
    from airflow_provider_deltalite.page.table_list import TableList
    from deltalite.inspection.commit_entries import CommitEntry


class Routes:
    """The base of the classes whose methods are routes. All of them share `table_list`, the list of known tables."""

    def __init__(self, services: Services, table_list: TableList) -> None:
        self.services = services
        self.table_list = table_list
        self.timeout_seconds = services.settings.timeout_seconds

    def links(self, request: Request) -> Links:
        """Return the addresses for a request, without links to runs."""
        return Links(app=request.state.deltalite_path, airflow=self.services.airflow_path)

    async def links_to_runs(self, request: Request, entries: Sequence[CommitEntry | None]) -> Links:
        """Return the addresses for a request, with links to the existing runs that made these commits."""
        links, runs = self.links(request), runs_of(entries)
        existing = await run_in_threadpool(self.services.database.existing_runs, runs) if runs else frozenset()
        return Links(app=links.app, airflow=links.airflow, runs=existing)

    async def find_table(self, request: Request, key: str) -> KnownTable:
        """Return a known table that the user may see.

        Raises:
            HTTPException: The table is unknown, or the user may not see it.
        """
        known, _ = await self.table_list.tables()
        if key not in known:  # the first listing of a pattern may find it
            await wait(request, self.table_list.start_listings())
            known, _ = await self.table_list.tables()
        table = known.get(key)
        visible = None if table is None else await run_in_threadpool(visible_table, table, rights_of(request))
        if visible is None:
            raise HTTPException(404)
        return visible


def start_deadline(request: Request, seconds: float) -> None:
    """Set the time until which a request may wait for storage: one deadline for all its waits."""
    request.state.deltalite_deadline = monotonic() + seconds


def seconds_left(request: Request) -> float:
    """Return the seconds that the request may still wait for storage."""
    deadline: float = request.state.deltalite_deadline
    return max(0.0, deadline - monotonic())


async def wait(request: Request, reads: Iterable[Read[Any]], *, max_seconds: float | None = None) -> None:
    """Wait for reads until the deadline of the request, and at most `max_seconds`."""
    seconds = seconds_left(request)
    await wait_for_reads(reads, seconds if max_seconds is None else min(max_seconds, seconds))


def rights_of(request: Request) -> PageRights:
    """Return the rights of the user."""
    rights: PageRights = request.state.deltalite_rights
    return rights


def problem_of(result: Any) -> str:
    """Return a sentence about a read without a value; an empty text if there is a value."""
    if result.value is not None:
        return ""
    health, reason = health_of(result)
    return "The table has no commit yet." if health is Health.MISSING else reason
