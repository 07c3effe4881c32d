"""LHBench's load: each table of TPC-DS from a Parquet file into a new Delta table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.suites.data import tpcds
from benchmarks.suites.engines import DeltaRs, Engine, Query
from benchmarks.suites.suite import Bench, check_equal

KEYS = {
    "store_sales": "ss_ticket_number",
    "web_returns": "wr_order_number",
    "customer": "c_customer_sk",
    "item": "i_item_sk",
    "date_dim": "d_date_sk",
}
"""The tables of the suite, each with the column whose sum the suite compares."""


def run(bench: Bench) -> None:
    """Measure the load of each table."""
    files = tpcds(bench.folder, bench.scale)
    for table, key in KEYS.items():
        _measure(bench, table, key, files[table])


def _measure(bench: Bench, name: str, key: str, source: Path) -> None:
    """Measure the load of one table, and compare the tables of all sides."""
    tables: dict[str, Path] = {}

    def prepare() -> None:
        tables.update({engine.name: bench.new_table() for engine in bench.engines})

    def run_side(engine: Engine) -> Callable[[], object]:
        return lambda: engine.load(str(source), str(tables[engine.name]))

    sums = Query(f"SELECT COUNT(*), SUM({key}) FROM loaded")  # noqa: S608  a constant of this file

    def check() -> None:
        check_equal(name, {side: DeltaRs().query({"loaded": str(table)}, sums) for side, table in tables.items()})

    sides = {engine.name: run_side(engine) for engine in bench.engines}
    bench.measure("load", name, sides, prepare=prepare, check=check)
    bench.clear_work()
