"""The list of known tables that a process keeps between requests.

Assets are loaded again after some seconds, and written tables and schedules after about a minute. Patterns of
`ui_tables` are listed in the background. A page that needs every table can wait for the first listing of a pattern.
Other pages use the listings that have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from airflow_provider_deltalite.page.freshness import Schedule, dag_ids_of
from airflow_provider_deltalite.page.known_tables import AssetFacts, KnownTable, WrittenTable, known_tables

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.read_pool import Read
    from airflow_provider_deltalite.page.services import Services

# Schedules and written tables change less often than assets, and their queries take longer.
_LISTS_PER_SLOW_QUERY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """The assets, the written tables and the addresses of `ui_tables` from which a list of tables is made."""

    assets_loaded_at: float = float("-inf")
    assets: list[AssetFacts] = field(default_factory=list)
    written_loaded_at: float = float("-inf")
    written: list[WrittenTable] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


class TableList:
    """The known tables by key, and sentences about problems of `ui_tables`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._current: tuple[_Sources, dict[str, KnownTable]] = _Sources(), {}
        self._schedules: Mapping[str, Schedule] = {}
        self._schedules_loaded_at = float("-inf")

    def start_listings(self) -> list[Read[tuple[str, ...]]]:
        """Start the listings that are due. Return the listings of patterns that have no result yet."""
        return self._services.roots.start_listings(self._services.settings.roots)

    async def schedules(self) -> Mapping[str, Schedule]:
        """Return the schedules of the DAGs that write known tables, kept twelve times as long as the assets."""
        if monotonic() - self._schedules_loaded_at >= _LISTS_PER_SLOW_QUERY * self._services.known_seconds:
            dag_ids = dag_ids_of([*self._current[1].values()])
            self._schedules_loaded_at = monotonic()
            self._schedules = await run_in_threadpool(self._services.database.schedules, dag_ids)
        return self._schedules

    async def tables(self) -> tuple[dict[str, KnownTable], list[str]]:
        """Return the tables that are known so far, and the problems. Start the listings that are due."""
        services = self._services
        self.start_listings()
        addresses, problems = services.roots.addresses(services.settings.roots)
        sources, tables = self._current
        if monotonic() - sources.assets_loaded_at >= services.known_seconds:
            assets = await run_in_threadpool(services.database.assets)
            sources = replace(sources, assets_loaded_at=monotonic(), assets=assets)
        if monotonic() - sources.written_loaded_at >= _LISTS_PER_SLOW_QUERY * services.known_seconds:
            written = await run_in_threadpool(services.database.written_tables)
            sources = replace(sources, written_loaded_at=monotonic(), written=written)
        sources = replace(sources, addresses=addresses)
        if sources != self._current[0]:
            tables = await run_in_threadpool(
                known_tables, sources.assets, addresses, services.settings.storage_conn_ids, sources.written
            )
            self._current = sources, tables
        return tables, problems
