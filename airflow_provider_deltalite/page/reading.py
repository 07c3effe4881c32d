"""Reads of known tables: each is shared, bounded in time for the caller, and cached in this process.

Overviews are read again if they are older than the caller allows; without a new commit this costs two requests. The key
of each value contains the connection that read it, so users of another connection do not get the value. Versions never
change, so their commits and changes are cached without a maximum age. An error is cached for some seconds, so that
reloads do not add requests to a storage in trouble. The error of a missing table is not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from time import monotonic
from typing import Generic, TypeVar

from airflow_provider_deltalite.page.cache import BoundedCache, CachedValue
from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.read_pool import Read, ReadPool
from deltalite.errors import TableNotFoundError
from deltalite.inspection.changed_rows import read_changed_rows
from deltalite.inspection.column_statistics import ColumnStatistics, read_column_statistics
from deltalite.inspection.commit_entries import CommitEntry, commit_entries, entries_since
from deltalite.inspection.growth import Growth, Totals, read_growth
from deltalite.inspection.overview import TableMeasures, TableOverview, read_measures, read_overview
from deltalite.inspection.preview import Limit, RowPreview, read_preview
from deltalite.inspection.table_rows import RowError
from deltalite.inspection.version_changes import VersionChanges, read_version_changes
from deltalite.requests import DEFAULT_THRESHOLDS
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

T = TypeVar("T")
OpenStore = Callable[[str, str | None], LogStore]
"""Opens the store of an address with an Airflow connection, or without one."""

# Some measures depend on the time, such as the files whose retention has passed.
_MAX_HEALTH_AGE_SECONDS = 3_600.0
_MAX_ERROR_AGE_SECONDS = 10.0
_MAX_SEARCHED_COMMITS = 1_000
_MAX_COMMITS_OF_RUN = 50
_MAX_MEASURING_THREADS = 4
_MAX_ROWS_AGE_SECONDS = 60.0
_ANY_AGE = float("inf")
_NOT_CACHED = -1.0  # as the maximum age: no cached value is this young


class State(StrEnum):
    """The state of a read."""

    FRESH = "fresh"
    FAILED = "failed"
    SLOW = "slow"
    """The storage has not answered in time."""
    WAITING = "waiting"
    """No thread is free for the read yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[T]):
    """The result of a read so far.

    - `value`: the value that the read returned; None if it failed. While the read runs, or if no read was necessary,
      `value` is the cached value; None if the cache has no value.
    - `error`: the error of a failed read.
    - `age_seconds`: the age of the value.
    - `running_seconds`: how long a slow read has run.
    """

    state: State
    value: T | None = None
    error: RowError | None = None
    age_seconds: float = 0.0
    running_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Generic[T]):
    """A value from the cache, or its read, which may still run.

    `read` is None if the cache has a value that is recent enough, or a recent error.
    """

    cache: BoundedCache
    cached: CachedValue | None
    read: Read[T] | None
    error: RowError | None = None

    @property
    def reads(self) -> list[Read[T]]:
        """The read, if there is one, as a list."""
        return [] if self.read is None else [self.read]

    def result(self, *, max_stale_seconds: float = 0.0) -> Result[T]:
        """Return the result so far. While the read runs, a cached value up to `max_stale_seconds` old is fresh."""
        if self.error is not None:
            return Result(state=State.FAILED, error=self.error)
        read = self.read
        if read is not None and read.is_done:
            return Result(state=State.FAILED if read.error else State.FRESH, value=read.value, error=read.error)
        value = None if self.cached is None else self.cached.value
        age_seconds = 0.0 if self.cached is None else self.cache.age_of(self.cached)
        if read is None or (self.cached is not None and age_seconds <= max_stale_seconds):
            return Result(state=State.FRESH, value=value, age_seconds=age_seconds)
        started_at = read.started_at
        if started_at is None:
            return Result(state=State.WAITING, value=value, age_seconds=age_seconds)
        running_seconds = monotonic() - started_at
        return Result(state=State.SLOW, value=value, age_seconds=age_seconds, running_seconds=running_seconds)


class TableReader:
    """Reads tables in the background."""

    def __init__(
        self, open_store: OpenStore, pool: ReadPool, cache: BoundedCache, *, now_ms: Callable[[], int]
    ) -> None:
        self._open_store = open_store
        self._pool = pool
        # The measures of a table with a million files take about a gigabyte, so a storage measures one table at a time.
        self._measuring_pool = ReadPool(threads_per_storage=1, max_threads=_MAX_MEASURING_THREADS)
        self._cache = cache
        self._now_ms = now_ms

    def overview(self, table: KnownTable, *, max_age_seconds: float, is_urgent: bool = True) -> Lookup[TableOverview]:
        """Look up the overview of a table, at most `max_age_seconds` old. A list of tables is not urgent."""
        key = ("overview", table.key, table.conn_id)

        def read_value(store: LogStore) -> TableOverview:
            cached, measured = self._cache.get(key), self._cache.get(("measured", table.key, table.conn_id))
            is_measured = measured is not None and self._cache.age_of(measured) < _MAX_HEALTH_AGE_SECONDS
            earlier_overview = cached.value if cached is not None and is_measured else None
            overview = read_overview(store, DEFAULT_THRESHOLDS, now_ms=self._now_ms(), earlier=earlier_overview)
            if overview is not earlier_overview:
                self._cache.put(("measured", table.key, table.conn_id), overview.version)
            return overview

        return self._look_up(table, key, read_value, max_age_seconds=max_age_seconds, is_urgent=is_urgent)

    def measures(self, table: KnownTable, overview: TableOverview, *, is_urgent: bool = True) -> Lookup[TableMeasures]:
        """Look up the measures of the version of an overview, for a table with very many files."""
        newest_key = ("newest measures", table.key, table.conn_id, overview.table_id)

        def read_value(store: LogStore) -> TableMeasures:
            newest = self._cache.get(newest_key)
            measures = read_measures(
                store,
                overview.version,
                DEFAULT_THRESHOLDS,
                now_ms=self._now_ms(),
                earlier=None if newest is None else newest.value,
            )
            self._cache.put(newest_key, measures)
            return measures

        key = ("measures", table.key, table.conn_id, overview.table_id, overview.version)
        return self._look_up(
            table,
            key,
            read_value,
            max_age_seconds=_MAX_HEALTH_AGE_SECONDS,
            is_urgent=is_urgent,
            pool=self._measuring_pool,
        )

    def columns(self, table: KnownTable, overview: TableOverview) -> Lookup[tuple[ColumnStatistics | None, ...]]:
        """Look up the statistics of the columns at the version of an overview."""
        key = ("columns", table.key, table.conn_id, overview.table_id, overview.version)
        is_large = overview.measures is None
        return self._look_up(
            table,
            key,
            lambda store: read_column_statistics(store, overview.version),
            max_age_seconds=_ANY_AGE,
            pool=self._measuring_pool if is_large else None,
        )

    def commits(self, table: KnownTable, table_id: str, *, up_to: int, limit: int) -> Lookup[tuple[CommitEntry, ...]]:
        """Look up at most `limit` commits, newest first, from the version `up_to` (inclusive)."""

        def read_value(store: LogStore) -> tuple[CommitEntry, ...]:
            snapshot = Snapshot.load(store)
            return tuple(commit_entries(store, snapshot, up_to_version=up_to, limit=limit))

        key = ("commits", table.key, table.conn_id, table_id, up_to, limit)
        return self._look_up(table, key, read_value, max_age_seconds=_ANY_AGE)

    def growth(self, table: KnownTable, overview: TableOverview, *, is_urgent: bool = True) -> Lookup[Growth]:
        """Look up the totals of the newest versions up to the version of an overview."""
        newest_key = ("growth", table.key, table.conn_id, overview.table_id)

        def read_value(store: LogStore) -> Growth:
            cached = self._cache.get(newest_key)
            growth = read_growth(
                Snapshot.load(store, overview.version),
                Totals(
                    files=overview.files,
                    size_bytes=overview.size_bytes,
                    rows=overview.live_rows,
                    deleted_rows=overview.deleted_rows,
                ),
                earlier=None if cached is None else cached.value,
            )
            if cached is None or not cached.value.points or overview.version >= cached.value.points[-1].version:
                self._cache.put(newest_key, growth)
            return growth

        key = (*newest_key, overview.version)
        return self._look_up(table, key, read_value, max_age_seconds=_ANY_AGE, is_urgent=is_urgent)

    def changes(self, table: KnownTable, table_id: str, version: int) -> Lookup[VersionChanges]:
        """Look up the differences of a version from the version before."""
        key = ("changes", table.key, table.conn_id, table_id, version)
        return self._look_up(table, key, lambda store: read_version_changes(store, version), max_age_seconds=_ANY_AGE)

    def rows(
        self,
        table: KnownTable,
        table_id: str,
        version: int,
        conditions: tuple[str, ...],
        *,
        is_of_changes: bool,
        max_seconds: float,
    ) -> Lookup[RowPreview]:
        """Look up some rows or changed rows of a version for which all conditions are true.

        The read ends after `max_seconds`. If this limit ended an earlier read, the rows are read again.
        """
        key = ("rows", table.key, table.conn_id, table_id, version, conditions, is_of_changes)
        cached = self._cache.get(key)
        is_cut = cached is not None and cached.value.limit is Limit.SECONDS

        def read_value(store: LogStore) -> RowPreview:
            read = read_changed_rows if is_of_changes else read_preview
            return read(store, version, conditions, max_seconds=max_seconds)

        return self._look_up(table, key, read_value, max_age_seconds=_NOT_CACHED if is_cut else _MAX_ROWS_AGE_SECONDS)

    def commits_of_run(
        self, table: KnownTable, *, dag_id: str, run_id: str, task_id: str, map_index: int, since_ms: int
    ) -> Lookup[tuple[CommitEntry, ...]]:
        """Look up the commits of a task instance since its first start, newest first.

        The result has at most 50 commits, from the newest 1,000 commits of the table.
        """

        def is_of_run(entry: CommitEntry) -> bool:
            run = entry.run
            if run is None or (run.dag_id, run.run_id, run.task_id) != (dag_id, run_id, task_id):
                return False
            return run.map_index == map_index or (run.map_index is None and map_index < 0)

        def read_value(store: LogStore) -> tuple[CommitEntry, ...]:
            snapshot = Snapshot.load(store)
            entries = entries_since(store, snapshot, since_ms=since_ms, limit=_MAX_SEARCHED_COMMITS)
            return tuple(islice(filter(is_of_run, entries), _MAX_COMMITS_OF_RUN))

        key = ("run", table.key, table.conn_id, dag_id, run_id, task_id, map_index, since_ms)
        return self._look_up(table, key, read_value, max_age_seconds=1.0)

    def _look_up(
        self,
        table: KnownTable,
        key: Hashable,
        read_value: Callable[[LogStore], T],
        *,
        max_age_seconds: float,
        is_urgent: bool = True,
        pool: ReadPool | None = None,
    ) -> Lookup[T]:
        failed = self._cache.get(("error", key))
        if failed is not None and self._cache.age_of(failed) < _MAX_ERROR_AGE_SECONDS:
            return Lookup(cache=self._cache, cached=None, read=None, error=failed.value)
        cached = self._cache.get(key)
        if cached is not None and self._cache.age_of(cached) <= max_age_seconds:
            return Lookup(cache=self._cache, cached=cached, read=None)

        def read() -> T:
            try:
                value = read_value(self._open_store(table.address, table.conn_id))
            except TableNotFoundError:  # the first commit may follow soon
                raise
            except Exception as error:
                self._cache.put(("error", key), RowError.of(error))
                raise
            self._cache.put(key, value)
            return value

        pool_read = (pool or self._pool).read(table.storage, key, read, is_urgent=is_urgent)
        return Lookup(cache=self._cache, cached=cached, read=pool_read)
