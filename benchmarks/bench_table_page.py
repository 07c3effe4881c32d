"""The page of tables in Airflow: its list with 1,000 tables, and a table with a million files, first and again.

Requests go through the FastAPI app, with stand-ins for Airflow's database and auth manager. The first request of each
page starts with an empty cache. The first response of the list shows only the tables that the server has read by then.
The page of the large table gets the measures and the columns with further requests, which are timed separately. The
logs are synthetic, and stay in `.benchmarks/`. The times of the pages have limits in seconds, and peak memory has a
limit in MiB. Waits and other programs make a time longer than its CPU time.
"""

from __future__ import annotations

import json
import logging
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_snapshot import FILES, TABLE, make_table
from fastapi import FastAPI
from fastapi.testclient import TestClient
from synthetic_log import COMMITS, fields_of_add, first_actions

from airflow_provider_deltalite.page.app import build_app
from airflow_provider_deltalite.page.cache import BoundedCache
from airflow_provider_deltalite.page.known_tables import AssetFacts, WrittenTable, key_of
from airflow_provider_deltalite.page.read_pool import ReadPool
from airflow_provider_deltalite.page.reading import TableReader
from airflow_provider_deltalite.page.roots import Roots
from airflow_provider_deltalite.page.services import Services
from airflow_provider_deltalite.page.settings import PageSettings
from deltalite.storage.opening import open_store

LAKE_TABLES = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
LAKE_COMMITS = 5
LAKE = Path(".benchmarks") / f"page-lake-{LAKE_TABLES}"
ROUNDS = 5
FIRST_LIMIT_S, AGAIN_LIMIT_S = 3.0, 0.3
MAX_MIB = 4_096


class Everyone:
    """A user who may read everything."""

    def may_read_assets(self) -> bool:
        """Allow assets."""
        return True

    def may_read_asset(self, _asset_id: int) -> bool:
        """Allow each asset."""
        return True

    def readable_dag_ids(self) -> frozenset[str]:
        """Return no DAG: the tables have none."""
        return frozenset()


class AssetList:
    """A database that knows assets only."""

    def __init__(self, tables: list[Path]) -> None:
        self._assets = [
            AssetFacts(asset_id=number, name=f"file://{table}", uri=f"file://{table}")
            for number, table in enumerate(tables)
        ]

    def assets(self) -> list[AssetFacts]:
        """Return the assets."""
        return self._assets

    def written_tables(self) -> list[WrittenTable]:
        """Return no written table."""
        return []

    def existing_runs(self, _runs: object) -> frozenset[tuple[str, str]]:
        """Return no run."""
        return frozenset()

    def schedules(self, _dag_ids: object) -> dict[str, object]:
        """Return no schedule."""
        return {}


def make_lake() -> list[Path]:
    """Write the logs of the small tables unless they exist, and return the tables."""
    tables = [LAKE.resolve() / f"table_{number:05d}" for number in range(LAKE_TABLES)]
    for table in tables:
        log = table / "_delta_log"
        if (log / f"{LAKE_COMMITS:020d}.json").exists():
            continue
        log.mkdir(parents=True, exist_ok=True)
        for version in range(LAKE_COMMITS + 1):
            info: dict[str, Any] = {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}}
            actions = [info, *(first_actions() if version == 0 else ({"add": fields_of_add(version)},))]
            (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return tables


def client_of(tables: list[Path]) -> TestClient:
    """Return a client of a page with an empty cache."""
    pool, cache = ReadPool(), BoundedCache(64 * 1024 * 1024)

    async def user_of() -> str:
        return "ann"

    services = Services(
        user_of=user_of,
        rights_of=lambda _user: Everyone(),  # type: ignore[arg-type,return-value]
        database=AssetList(tables),  # type: ignore[arg-type]
        settings=PageSettings(timeout_seconds=60.0),
        tables=TableReader(lambda address, _: open_store(address), pool, cache, now_ms=lambda: time.time_ns() // 10**6),
        roots=Roots(open_store, pool, cache),
        airflow_path="",
    )
    app = FastAPI()
    app.mount("/page", build_app(services))
    return TestClient(app)


def get_page(client: TestClient, path: str, expected: str) -> None:
    """Get a page, and exit if it lacks a text."""
    response = client.get(f"/page{path}")
    if response.status_code != 200 or expected not in response.text:
        raise SystemExit(f"{path} answered {response.status_code} without {expected!r}.")


def print_time(name: str, run: Callable[[], object], *, limit_s: float | None = None, rounds: int = 1) -> None:
    """Time a function, and print the median, the CPU time of the process, the limit, and OVER if it is exceeded."""
    times, cpu_times = [], []
    for _ in range(rounds):
        started, cpu_started = time.perf_counter(), time.process_time()
        run()
        times.append(time.perf_counter() - started)
        cpu_times.append(time.process_time() - cpu_started)
    seconds, cpu_seconds = statistics.median(times), statistics.median(cpu_times)
    limit = "" if limit_s is None else f"{limit_s:.1f}s"
    verdict = "  OVER" if limit_s is not None and seconds > limit_s else ""
    print(f"{name:<44} {seconds:>7.2f}s {cpu_seconds:>7.2f}s {limit:>6}{verdict}", flush=True)


def wait_for_all(client: TestClient, path: str, pending_text: str) -> None:
    """Get a page until it lacks `pending_text`."""
    while pending_text in client.get(f"/page{path}").text:
        time.sleep(0.5)


def main() -> None:
    """Make the tables unless they exist, and print a table of times."""
    if not (TABLE / "_delta_log" / f"{COMMITS:020d}.json").exists():
        make_table()
    tables, large_table = make_lake(), TABLE.resolve()
    # The first page of a process imports and renders for the first time. The API server does this once.
    get_page(client_of(tables[:1]), f"/tables/{key_of(str(tables[0]))}", "Table features")

    logging.disable(logging.INFO)  # the client logs each request
    print(f"{'page':<44} {'time':>8} {'CPU':>8} {'limit':>6}")
    lake, name, pages = client_of(tables), f"list of {LAKE_TABLES:,} tables", f"Page 1 of {-(-LAKE_TABLES // 100)}"
    print_time(f"{name}, first", lambda: get_page(lake, "/lake", pages), limit_s=FIRST_LIMIT_S)
    print_time(f"{name}, all rows", lambda: wait_for_all(lake, "/lake?sort=name", "not read yet"))
    print_time(f"{name}, again", lambda: get_page(lake, "/lake", pages), limit_s=AGAIN_LIMIT_S, rounds=ROUNDS)

    client, path = client_of([large_table]), f"/tables/{key_of(str(large_table))}"
    name = f"table of {FILES:,} files"
    print_time(f"{name}, first", lambda: get_page(client, path, "data-measures="), limit_s=FIRST_LIMIT_S)
    print_time(f"{name}, its measures", lambda: get_page(client, f"{path}/measures", "Size of a file"))
    print_time(f"{name}, its columns", lambda: get_page(client, f"{path}/columns", "come from the statistics"))
    print_time(f"{name}, again", lambda: get_page(client, path, "Size of a file"), limit_s=AGAIN_LIMIT_S, rounds=ROUNDS)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {peak_mib:.0f} MiB (limit {MAX_MIB} MiB){'  OVER' if peak_mib > MAX_MIB else ''}")


if __name__ == "__main__":
    main()
