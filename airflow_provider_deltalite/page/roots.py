"""The tables that the patterns of `[deltalite] ui_tables` match, listed in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from airflow_provider_deltalite.page.cache import BoundedCache
from airflow_provider_deltalite.page.read_pool import Read, ReadPool
from deltalite.inspection.table_rows import RowError
from deltalite.requests.source_paths import has_pattern
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import listed_tree
from deltalite.storage.patterns import matching_folders

_MAX_AGE_SECONDS = 60.0
_MAX_TABLES = 20_000


class Roots:
    """The addresses of `ui_tables`. A pattern is listed at most once a minute."""

    def __init__(self, open_store: Callable[[str], LogStore], pool: ReadPool, cache: BoundedCache) -> None:
        self._open_store = open_store
        self._pool = pool
        self._cache = cache

    def start_listings(self, roots: Iterable[str]) -> list[Read[tuple[str, ...]]]:
        """Start the listings that are due. Return the listings of patterns that have no result yet."""
        first_listings = []
        for root in filter(has_pattern, roots):
            cached = self._cache.get(("root", root))
            if cached is None or self._cache.age_of(cached) > _MAX_AGE_SECONDS:
                read = self._pool.read(f"pattern {root}", ("root", root), partial(self._list, root))
                first_listings.extend([read] if cached is None else [])
        return first_listings

    def addresses(self, roots: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the addresses that are known so far, and sentences about problems with patterns."""
        addresses: list[str] = []
        problems: list[str] = []
        for root in roots:
            if not has_pattern(root):
                addresses.append(root)
                continue
            cached = self._cache.get(("root", root))
            folders, problem = ((), f"The folders of {root} are not listed yet. Reload the page.")
            if cached is not None:
                folders, problem = cached.value
            addresses.extend(folders)
            problems.extend([problem] if problem else [])
        return addresses, problems

    def _list(self, root: str) -> tuple[str, ...]:
        try:
            folders = matching_folders(root, lambda address: listed_tree(self._open_store(address)))
        except Exception as error:  # noqa: BLE001  clients of storage raise errors of any class
            problem = f"Could not list {root} of [deltalite] ui_tables: {RowError.of(error).text}"
            self._cache.put(("root", root), ((), problem))
            return ()
        problem = f"{root} matches {len(folders)} folders; the page shows the first {_MAX_TABLES}."
        self._cache.put(("root", root), (tuple(folders[:_MAX_TABLES]), problem if len(folders) > _MAX_TABLES else ""))
        return tuple(folders)
