"""Runs of the example DAGs. Each run starts a JVM, so the tests share them. A test that changes a table copies it."""

from __future__ import annotations

import json
import os
import shutil
from datetime import date, timedelta
from pathlib import Path

import pytest

from demo.feed import write_feed
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, Run, example, run
from tests.examples.feeds import CHANGES, ORDERS

KILLED_ONCE_SCRIPT = """\
#!/bin/sh
if [ ! -e "{marker}" ]; then : > "{marker}"; exit 137; fi
exec "{spark_submit}" "$@"
"""


@pytest.fixture(scope="session")
def examples_home(airflow_db, tmp_path_factory):
    """The folder of the feed and the tables. Airflow Variables pass it to the DAGs."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_VAR_LAKE", str(folder / "lake"))
        patch.setenv("AIRFLOW_VAR_LANDING", str(folder / "landing"))
        yield folder


@pytest.fixture(scope="session")
def ingest_runs(examples_home) -> dict[date, Run]:
    """The runs of `orders_ingest` for two days. In the first run, the first call of spark-submit is killed."""
    for day in (FIRST_DAY, SECOND_DAY):
        write_feed(examples_home / "landing", day, orders=ORDERS)
    programs = examples_home / "bin"
    programs.mkdir()
    stand_in = programs / "spark-submit"
    stand_in.write_text(
        KILLED_ONCE_SCRIPT.format(marker=examples_home / "was-killed", spark_submit=shutil.which("spark-submit"))
    )
    stand_in.chmod(0o755)
    dag = example("orders_ingest")
    dag.get_task("load").retry_delay = timedelta(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        first = run(dag, FIRST_DAY)
    return {FIRST_DAY: first, SECOND_DAY: run(example("orders_ingest"), SECOND_DAY)}


@pytest.fixture(scope="session")
def totals_runs(examples_home, ingest_runs) -> dict[date, Run]:
    """The runs of `orders_replace_day` for two days."""
    return {day: run(example("orders_replace_day"), day) for day in (FIRST_DAY, SECOND_DAY)}


@pytest.fixture(scope="session")
def upsert_runs(examples_home) -> dict[date, Run]:
    """The runs of `customers_upsert` for two days."""
    for day, changes in CHANGES.items():
        folder = examples_home / "landing" / "customers" / day.isoformat()
        folder.mkdir(parents=True)
        (folder / "changes.json").write_text("\n".join(map(json.dumps, changes)) + "\n", encoding="utf-8")
    return {day: run(example("customers_upsert"), day) for day in (FIRST_DAY, SECOND_DAY)}


@pytest.fixture
def lake(examples_home, ingest_runs, upsert_runs, tmp_path, monkeypatch) -> Path:
    """A copy of the tables for a test that changes them. Airflow Variables pass it to the DAGs.

    A test that needs the totals also requests `totals_runs`.
    """
    copy = shutil.copytree(examples_home / "lake", tmp_path / "lake")
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(copy))
    return copy


@pytest.fixture
def without_spark(tmp_path, monkeypatch) -> Path:
    """Replace spark-submit by a program that fails. Return the path of a file that the program creates."""
    call_marker = tmp_path / "called"
    stand_in = tmp_path / "bin" / "spark-submit"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\n: > "{call_marker}"\nexit 1\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}")
    return call_marker
