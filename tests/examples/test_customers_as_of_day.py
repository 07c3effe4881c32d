"""A backfill reads its source as of each day, in any order. Airflow's command line creates it; a scheduler runs it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import EXAMPLES
from tests.support.airflow_processes import WholeAirflow
from tests.support.postgres import postgres

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]
DAG_ID = "customers_as_of_day"
# The commit time of each version of `customers`, and the countries of the customers that are not deleted.
HISTORY = [
    (datetime(2026, 2, 28, 12, tzinfo=UTC), ["DE", "FR"]),
    (datetime(2026, 3, 1, 10, tzinfo=UTC), ["DE", "DE", "FR"]),
    (datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC), ["FR", "FR", "DE", "US"]),
    (datetime(2026, 4, 3, tzinfo=UTC), ["US"]),
    (datetime(2026, 4, 4, tzinfo=UTC), ["US", "CN"]),
]
COMMITS_BEFORE_APRIL = 3


def write_customers(table: Path) -> None:
    """Write the complete history, in commits with in-commit timestamps. Each version also has a deleted customer."""
    for _, countries in HISTORY:
        is_deleted = [False] * len(countries)
        rows = pa.table({"country": [*countries, "DE"], "deleted": [*is_deleted, True]})
        deltalake.write_deltalake(
            str(table),
            rows,
            mode="overwrite",
        )
    for version, (moment, _) in enumerate(HISTORY):
        commit = table / "_delta_log" / f"{version:020}.json"
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            match action:
                case {"commitInfo": info}:
                    info["inCommitTimestamp"] = int(moment.timestamp() * 1000)
                case {"protocol": protocol}:
                    features = ["appendOnly", "invariants", "inCommitTimestamp"]
                    protocol |= {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
                case {"metaData": metadata}:
                    metadata["configuration"] = {"delta.enableInCommitTimestamps": "true"}
        actions.sort(key=lambda action: "commitInfo" not in action)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def copy_commits(table: Path, complete_table: Path, versions: range) -> None:
    """Copy the commits of these versions from the complete table, as if another writer committed them."""
    for version in versions:
        name = f"{version:020}.json"
        shutil.copy(complete_table / "_delta_log" / name, table / "_delta_log" / name)


@pytest.fixture
def lake(tmp_path) -> Path:
    """The folder of the tables. `customers` has only the commits before April."""
    write_customers(tmp_path / "complete")
    table = tmp_path / "lake" / "customers"
    shutil.copytree(tmp_path / "complete", table, ignore=lambda _, names: [n for n in names if n.endswith(".json")])
    copy_commits(table, tmp_path / "complete", range(COMMITS_BEFORE_APRIL))
    return tmp_path / "lake"


def backfill(airflow: WholeAirflow, first: str, last: str, *options: str) -> list[tuple[str, str]]:
    """Backfill these days with Airflow's command. Return day and state of each run, in the order of their start."""
    airflow.cli("backfill", "create", "--dag-id", DAG_ID, "--from-date", first, "--to-date", last, *options)

    def is_complete() -> bool:
        backfills = airflow.ask("GET", "backfills", dag_id=DAG_ID)["backfills"]
        return bool(backfills) and all(backfill["completed_at"] for backfill in backfills)

    airflow.until(f"the backfill from {first} is complete", is_complete, timeout=600)
    runs = [run for run in airflow.runs(DAG_ID) if run["run_type"] == "backfill"]
    return [(run["logical_date"][:10], run["state"]) for run in sorted(runs, key=lambda run: run["start_date"])]


def customers_by_day_and_country(lake: Path) -> dict[date, Counter]:
    """Return the number of customers in each country, by day, from the table that the DAG writes."""
    counts: dict[date, Counter] = {}
    for row in DeltaTable(lake / "customers_by_day").to_arrow().to_pylist():
        counts.setdefault(row["day"], Counter())[row["country"]] += row["customers"]
    return counts


def test_each_day_reads_the_table_as_of_its_end_in_any_order_and_a_month_later(lake, tmp_path):
    # Without an end date, the scheduler would also start a run of the newest day.
    source = (EXAMPLES / f"{DAG_ID}.py").read_text()
    source_with_end = source.replace("catchup=False,", "catchup=False, end_date=datetime(2026, 3, 10, tzinfo=UTC),")
    assert source_with_end != source
    variables = {"AIRFLOW_VAR_LAKE": str(lake)}
    with postgres() as database, WholeAirflow(tmp_path / "airflow", database=database, variables=variables) as airflow:
        airflow.add_dag(DAG_ID, source_with_end)
        runs = backfill(airflow, "2026-03-01", "2026-03-02", "--run-backwards", "--max-active-runs", "1")
        assert runs == [("2026-03-02", "success"), ("2026-03-01", "success")]
        expected = {date(2026, 3, 1): Counter(HISTORY[1][1]), date(2026, 3, 2): Counter(HISTORY[2][1])}
        assert customers_by_day_and_country(lake) == expected
        history = DeltaTable(lake / "customers_by_day").history()
        parameters = [commit["operationParameters"] for commit in history]
        assert [json.loads(values["sourceVersions"]) for values in parameters] == [{"source": 1}, {"source": 2}]

        copy_commits(lake / "customers", tmp_path / "complete", range(COMMITS_BEFORE_APRIL, len(HISTORY)))
        (run_id,) = [run["dag_run_id"] for run in airflow.runs(DAG_ID) if run["logical_date"].startswith("2026-03-02")]
        airflow.clear(DAG_ID, run_id)
        airflow.until(
            "the cleared run has written its day again",
            lambda: DeltaTable(lake / "customers_by_day").version == 2,
            timeout=300,
        )
        airflow.wait_for_run(DAG_ID, run_id, timeout=300)
        assert customers_by_day_and_country(lake) == expected
