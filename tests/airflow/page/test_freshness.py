"""Whether a table is fresh or late: by the schedule of the DAG that writes it, or by its earlier commits."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider_deltalite.page.freshness import Freshness, FreshnessWord, Schedule, freshness_of
from airflow_provider_deltalite.page.known_tables import KnownTable, TaskName
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights
from tests.unit.builders import append_files, create

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAILY = Schedule(is_paused=False, last_start=MIDNIGHT, next_start=MIDNIGHT + 24 * HOUR)
HOURLY = Schedule(is_paused=False, last_start=MIDNIGHT, next_start=MIDNIGHT + HOUR)
TABLE = KnownTable(
    key="k",
    address="/lake/orders",
    storage="local",
    producers=(TaskName(dag_id="sales", task_id="load"), TaskName(dag_id="stock", task_id="load")),
)


def freshness(
    last_commit: datetime | None, now: datetime, *, usual_gap: timedelta | None = None, **schedules: Schedule
) -> Freshness:
    return freshness_of(
        TABLE,
        schedules,
        last_commit_ms=None if last_commit is None else int(last_commit.timestamp() * 1000),
        usual_gap_ms=None if usual_gap is None else int(usual_gap.total_seconds() * 1000),
        now=now,
    )


@pytest.mark.parametrize(
    ("last_commit", "now", "word"),
    [
        (MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR, "fresh"),
        (MIDNIGHT - 23 * HOUR, MIDNIGHT + 2 * HOUR, "fresh"),  # the run of today may still write
        (MIDNIGHT - 23 * HOUR, MIDNIGHT + 13 * HOUR, "late"),
        (MIDNIGHT + HOUR, MIDNIGHT + 35 * HOUR, "fresh"),  # no run of the second day so far
        (MIDNIGHT + HOUR, MIDNIGHT + 37 * HOUR, "late"),
        (MIDNIGHT + 30 * HOUR, MIDNIGHT + 37 * HOUR, "fresh"),  # another writer has committed
    ],
)
def test_a_table_is_late_half_an_interval_after_the_start_that_was_due(last_commit, now, word):
    result = freshness(last_commit, now, sales=DAILY)
    assert result.word == word
    assert "the DAG sales" in result.reason and "starts every 24 hours" in result.reason


def test_the_dag_that_starts_most_often_decides():
    result = freshness(MIDNIGHT - HOUR, MIDNIGHT + HOUR / 2 + timedelta(minutes=1), sales=DAILY, stock=HOURLY)
    assert result.word is FreshnessWord.LATE and "the DAG stock" in result.reason and "60 minutes" in result.reason


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(is_paused=True, last_start=MIDNIGHT, next_start=MIDNIGHT + HOUR),
        Schedule(is_paused=False),  # waits for assets
        Schedule(is_paused=False, next_start=MIDNIGHT),  # has not run so far
        Schedule(is_paused=False, last_start=MIDNIGHT, next_start=MIDNIGHT),
    ],
)
def test_without_scheduled_runs_the_earlier_commits_decide(schedule):
    young, old = (freshness(MIDNIGHT, MIDNIGHT + h * HOUR, usual_gap=2 * HOUR, sales=schedule) for h in (3, 4))
    assert (young.word, old.word) == ("fresh", "late")
    assert "The last commit is 4 hours old, and there are usually 2 hours between loads." in old.reason
    assert ("Paused: sales." in old.reason) == schedule.is_paused


def test_a_table_without_a_schedule_and_with_few_commits_is_unknown():
    assert freshness(MIDNIGHT, MIDNIGHT + HOUR).word is FreshnessWord.UNKNOWN
    burst = freshness(MIDNIGHT, MIDNIGHT + HOUR, usual_gap=timedelta(seconds=59))
    assert burst.word is FreshnessWord.UNKNOWN and "show no usual time between loads" in burst.reason
    assert freshness(MIDNIGHT, MIDNIGHT + HOUR, usual_gap=timedelta(seconds=60)).word is FreshnessWord.LATE
    assert freshness(None, MIDNIGHT, usual_gap=HOUR, sales=DAILY).word is FreshnessWord.UNKNOWN


def test_the_list_and_the_page_of_a_table_show_the_freshness(delta_page, tmp_path):
    store = append_files(create(LocalLogStore(str(tmp_path / "lake" / "orders"))), 4)
    for version in range(5):  # one commit each hour, the last one ten hours ago
        then = time.time() - 3600 * (14 - version)
        os.utime(Path(store.root) / commit_name(version), (then, then))
    key = delta_page.add_asset(store.root, writer=("sales", "load"))
    delta_page.database.schedules_of["sales"] = Schedule(is_paused=True)
    for path in ("/lake", f"/tables/{key}"):
        html = delta_page.get(path)
        assert re.search(r'class="freshness late"', html), path
        assert "The last commit is 10 hours old, and there are usually 60 minutes between loads." in html
        assert "sales" not in html  # the user may not read the DAG
    delta_page.users["ann"] = Rights(dag_ids={"sales"})
    assert "between loads. Paused: sales." in delta_page.get("/lake")


def test_the_list_sorts_late_tables_first_then_unknown_then_fresh_ones_by_name(delta_page, tmp_path):
    hours_by_name = {"d_late": 10, "c_late": 10, "b_unknown": None, "a_fresh": 1, "e_fresh": 1}
    for number, (name, hours) in enumerate(hours_by_name.items()):
        commits = 0 if hours is None else 4
        store = append_files(create(LocalLogStore(str(tmp_path / "lake" / name))), commits)
        for version in range(commits + 1):  # one commit each hour
            then = time.time() - 3600 * ((hours or 0) + commits - version)
            os.utime(Path(store.root) / commit_name(version), (then, then))
        delta_page.add_asset(store.root, asset_id=number)
    (tmp_path / "lake" / "broken" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "broken" / commit_name(0)).write_text("{")
    delta_page.add_asset(tmp_path / "lake" / "broken", asset_id=9)

    def names(order: str) -> list[str]:
        html = delta_page.get(f"/lake?sort=freshness{order}")
        heading = re.search(r'aria-sort="\w+">(.*?)</th>', html, re.DOTALL)[1]
        assert "sort=commit" in heading and re.search(
            r'>Freshness<span class="arrow" aria-hidden="true">[↓↑]<', heading
        )
        return re.findall(r">lake/(\w+)</a>", html)

    assert names("") == ["c_late", "d_late", "b_unknown", "a_fresh", "e_fresh", "broken"]
    assert names("&order=asc") == ["a_fresh", "e_fresh", "b_unknown", "c_late", "d_late", "broken"]
