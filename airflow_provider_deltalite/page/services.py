"""The parts that the app uses: the user's rights, the database, the settings and the reader of tables.

Tests replace them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow.providers.common.compat.sdk import conf

from airflow_provider_deltalite.page.cache import BoundedCache
from airflow_provider_deltalite.page.form_tokens import FormTokens
from airflow_provider_deltalite.page.known_tables import AssetFacts, UserRights, WrittenTable, conn_id_of
from airflow_provider_deltalite.page.read_pool import ReadPool
from airflow_provider_deltalite.page.reading import TableReader
from airflow_provider_deltalite.page.registration import root_path
from airflow_provider_deltalite.page.roots import Roots
from airflow_provider_deltalite.page.run_start import RunStartAnswer, start_run
from airflow_provider_deltalite.page.settings import PageSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_deltalite.page.database import Attempt, DagState, TaskResult
    from airflow_provider_deltalite.page.freshness import Schedule
    from deltalite.storage.log_store import LogStore

_CACHE_BYTES = 64 * 1024 * 1024


class PageRights(UserRights, Protocol):
    """The rights of a user, also on the parts of a DAG."""

    @property
    def user_id(self) -> str:
        """The id of the user in the auth manager."""
        ...

    def may_start_runs(self, dag_id: str) -> bool:
        """Whether the user may start runs of a DAG."""
        ...

    def may_read_rows(self) -> bool:
        """Whether the user may see rows of the tables that the user sees."""
        ...

    def may_read_dag(self, dag_id: str) -> bool:
        """Whether the user may read a DAG."""
        ...

    def may_read_runs(self, dag_id: str) -> bool:
        """Whether the user may read the runs of a DAG."""
        ...

    def may_read_tasks(self, dag_id: str) -> bool:
        """Whether the user may read the task instances of a DAG."""
        ...

    def may_read_xcoms(self, dag_id: str) -> bool:
        """Whether the user may read the XComs of a DAG."""
        ...


class Database(Protocol):
    """What Airflow's database knows; see `AirflowDatabase`."""

    def assets(self) -> list[AssetFacts]:
        """Return the active assets."""
        ...

    def written_tables(self) -> list[WrittenTable]:
        """Return the tables that tasks of this package have written."""
        ...

    def existing_runs(self, runs: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Return those pairs of DAG id and run id that exist."""
        ...

    def dag_state(self, dag_id: str) -> DagState | None:
        """Return whether a DAG can start runs; None if there is no such DAG."""
        ...

    def schedules(self, dag_ids: Collection[str]) -> dict[str, Schedule]:
        """Return the schedules of DAGs by their ids, without the DAGs that this Airflow lacks."""
        ...

    def attempts(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> list[Attempt]:
        """Return the attempts of a task instance, oldest first."""
        ...

    def newest_runs(self, dag_id: str, limit: int) -> list[str]:
        """Return the ids of the newest runs of a DAG, newest first."""
        ...

    def results(
        self, dag_id: str, run_id: str, task_id: str | None = None, map_index: int | None = None
    ) -> list[TaskResult]:
        """Return the return values of a run's tasks, or of one task instance."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the page.

    - `user_of`: a FastAPI dependency that returns the logged-in user, or raises an `HTTPException`.
    - `rights_of`: returns the rights of a user.
    - `airflow_path`: the path of Airflow's UI, without a slash at the end.
    - `form_tokens`: the tokens of forms that change something.
    - `start_run`: starts a DAG run as the user of a request; see `run_start.start_run`.
    - `known_seconds`: how long a process keeps the list of known tables.
    """

    user_of: Callable[..., Any]
    rights_of: Callable[[Any], PageRights]
    database: Database
    settings: PageSettings
    tables: TableReader
    roots: Roots
    airflow_path: str
    form_tokens: FormTokens = field(default_factory=lambda: FormTokens(""))
    start_run: Callable[[Any, str, str, Mapping[str, Any]], Awaitable[RunStartAnswer]] = start_run
    known_seconds: float = 5.0


def airflow_services() -> Services:
    """Return the parts for Airflow's API server."""
    from airflow.api_fastapi.core_api.security import get_user

    from airflow_provider_deltalite.page.access import AirflowRights
    from airflow_provider_deltalite.page.database import AirflowDatabase

    settings = read_settings()
    pool, cache = ReadPool(), BoundedCache(_CACHE_BYTES)

    def open_root(address: str) -> LogStore:
        return open_table(address, conn_id_of(address, settings.storage_conn_ids))

    return Services(
        user_of=get_user,
        rights_of=AirflowRights,
        database=AirflowDatabase(),
        settings=settings,
        tables=TableReader(open_table, pool, cache, now_ms=lambda: time.time_ns() // 1_000_000),
        roots=Roots(open_root, pool, cache),
        airflow_path=root_path(),
        form_tokens=FormTokens(conf.get("api", "secret_key", fallback="") or ""),
    )


def open_table(address: str, conn_id: str | None) -> LogStore:
    """Open a table as the sensor does."""
    from airflow_provider_deltalite.hooks.delta import DeltaHook

    return DeltaHook(address, conn_id).get_conn()
