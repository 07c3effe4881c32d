"""LHBench's refresh: five queries of TPC-DS, then ten merges of 3 % into `store_sales`, then the queries again.

The queries are in the folder `queries`, with the parameters of the qualification database of TPC-DS. LHBench merges the
refresh data of TPC-DS, which the generator does not make. Here, half of each source is new, and the other half changes
rows that are spread over the table. `store_sales` has 16 files, and no partitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.suites.data import TABLES, tpcds
from benchmarks.suites.engines import Engine, Merge, Query, Rows
from benchmarks.suites.suite import Bench, check_equal
from benchmarks.suites.tables import copy_table, make_table, sample, split, with_delta_types, with_values

FACTS = "store_sales"
FILES = 16
REFRESHES = 10
SHARE = 0.03
QUERIES = {path.stem: Query(path.read_text("utf-8")) for path in (Path(__file__).parent / "queries").glob("*.sql")}
SUMS = Query("SELECT COUNT(*), SUM(ss_quantity), SUM(ss_ticket_number) FROM store_sales")


def run(bench: Bench) -> None:
    """Measure the queries, the merges, and the queries again."""
    files = tpcds(bench.folder, bench.scale)
    tables = {table: bench.folder / f"{table}-{bench.scale:g}" for table in TABLES if table != "web_returns"}
    facts = with_delta_types(pq.read_table(files[FACTS]))
    for name, table in tables.items():
        make_table(table, split(facts, FILES) if name == FACTS else [with_delta_types(pq.read_table(files[name]))])
    tables_by_side = {
        engine.name: {**tables, FACTS: copy_table(tables[FACTS], bench.new_table())} for engine in bench.engines
    }
    _measure_queries(bench, "query before the merges", tables_by_side)
    _measure_merges(bench, {side: side_tables[FACTS] for side, side_tables in tables_by_side.items()}, facts)
    _measure_queries(bench, "query after the merges", tables_by_side)
    bench.clear_work()


def _measure_queries(bench: Bench, group: str, tables_by_side: Mapping[str, Mapping[str, Path]]) -> None:
    """Measure all queries, and compare their rows."""
    for name in sorted(QUERIES, key=lambda name: int(name[1:])):
        sides = {
            engine.name: _run_query(engine, tables_by_side[engine.name], QUERIES[name]) for engine in bench.engines
        }
        bench.measure_queries(group, name, sides)


def _run_query(engine: Engine, tables: Mapping[str, Path], query: Query) -> Callable[[], Rows]:
    """Return a function that runs a query on the tables that it names."""
    named_tables = {name: str(table) for name, table in tables.items() if name in query.sql}
    return lambda: engine.query(named_tables, query)


def _measure_merges(bench: Bench, tables: Mapping[str, Path], facts: pa.Table) -> None:
    """Measure all merges as the rounds of one case, and compare the tables."""
    changes: list[Merge] = []

    def prepare() -> None:
        source_file = bench.new_file()
        pq.write_table(_source(facts, len(changes)), source_file)
        changes.append(Merge(source=str(source_file), keys=("ss_item_sk", "ss_ticket_number")))

    def run_side(engine: Engine) -> Callable[[], object]:
        return lambda: engine.merge(str(tables[engine.name]), changes[-1])

    def check() -> None:
        rows = {engine.name: engine.query({FACTS: str(tables[engine.name])}, SUMS) for engine in bench.engines}
        check_equal("merges", rows)

    sides = {engine.name: run_side(engine) for engine in bench.engines}
    merges = replace(bench, rounds=REFRESHES - 1)  # the first merge does not count
    merges.measure("merge", f"{SHARE:.0%} of the rows, {REFRESHES} times", sides, prepare=prepare, check=check)


def _source(facts: pa.Table, number: int) -> pa.Table:
    """Return the source of a merge. Half of its rows change prices and quantities, the other half has new keys."""
    random_generator = random.Random(number)  # noqa: S311  the same source in each run
    changed = sample(random_generator, facts, SHARE / 2)
    backwards = pa.array(range(changed.num_rows - 1, -1, -1))
    for column in ("ss_quantity", "ss_sales_price", "ss_ext_sales_price"):
        changed = with_values(changed, column, changed[column].take(backwards))
    new = sample(random_generator, facts, SHARE / 2)
    first_key = pc.max(facts["ss_ticket_number"]).as_py() + 1 + number * facts.num_rows
    return pa.concat_tables(
        [changed, with_values(new, "ss_ticket_number", list(range(first_key, first_key + new.num_rows)))]
    )
