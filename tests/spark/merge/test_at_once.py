"""Merges at the same time on one table: what keeps their read sets apart keeps them out of each other's way.

Each is a thread with its session and its partition, as each mapped task is a process. None commits before all of
them have planned on the same version, so the same conflicts arise in every run. The tests count the replans
of a merge by its log lines.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from deltalite.commands.merge import merge
from deltalite.protocol.file_names import LogFileKind, parse_log_name
from deltalite.requests import MergeClause, MergeRequest, RunIdentity
from deltalite.storage.local import LocalLogStore
from tests.support.tables import HERE, commit, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TASKS, ROWS = 8, 20
MIDDLE = ROWS // 2
DAYS = [date(2026, 1, 1) + timedelta(days=n) for n in range(TASKS)]
CLAUSES = {
    "when_matched": (
        MergeClause(delete=True, condition="source.amount IS NULL"),
        MergeClause(update={"amount": "source.amount"}),
    ),
    "when_not_matched": (MergeClause(insert="*"),),
}


CONDITIONS = {
    "a literal": "target.day = DATE'{day}' AND target.id = source.id",
    "the source's days": "target.day = source.day AND target.id = source.id",
    "the source's keys": "target.id = source.id",
}
SAMPLE = {("the source's days", "vectors"), ("the source's keys", "files")}


def ids_of(number: int) -> range:
    """The ids of a day lie together, and apart from those of other days."""
    return range(1000 * number, 1000 * number + ROWS)


def interleaved(number: int) -> range:
    """The ids of a day lie among those of other days."""
    return range(number, TASKS * ROWS, TASKS)


def source_of(number: int, ids) -> str:
    """Of each day the first row is deleted, one in the middle changed, and one is new.

    The one in the middle lies inside the bounds of every other day's files where ids are interleaved.
    """
    new = ids[-1] + ids.step
    rows = [(ids[0], "NULL"), (ids[MIDDLE], "5"), (new, "7")]
    values = ", ".join(f"({key}L, DATE'{DAYS[number]}', CAST({amount} AS INT))" for key, amount in rows)
    return f"SELECT * FROM VALUES {values} AS rows(id, day, amount)"


def expected_of(number: int, ids) -> list[tuple]:
    kept = [(key, DAYS[number], 1) for key in ids[1:] if key != ids[MIDDLE]]
    return [*kept, (ids[MIDDLE], DAYS[number], 5), (ids[-1] + ids.step, DAYS[number], 7)]


@pytest.fixture
def together(monkeypatch):
    """No thread's first commit is put before every thread has come that far."""
    here, barriers = threading.local(), []
    original = LocalLogStore.write_if_absent

    def after_all_others(store, name, data):
        parsed = parse_log_name(name)
        is_commit = parsed is not None and parsed.kind is LogFileKind.COMMIT
        if is_commit and not getattr(here, "planned", False):
            here.planned = True
            barriers[0].wait()
        return original(store, name, data)

    def start(tasks=TASKS):
        barriers.append(threading.Barrier(tasks, timeout=120))
        monkeypatch.setattr(LocalLogStore, "write_if_absent", after_all_others)

    yield start
    for barrier in barriers:
        barrier.abort()


def merge_all(spark, table, on, ids, tasks=TASKS):
    """Merge the changes of every day, or of the first ones, at once; the results, in the order of the days."""

    def one(number):
        return merge(
            spark.newSession(),
            MergeRequest(
                table=str(table),
                sources={"source": HERE},
                query=source_of(number, ids(number)),
                on=on.format(day=DAYS[number]),
                identity=RunIdentity(app_id=f"ns/dag/merge/{number}/run"),
                conflict_retries=2 * TASKS,
                **CLAUSES,
            ),
        )

    with ThreadPoolExecutor(tasks) as pool:
        return list(pool.map(one, range(tasks)))


def make(spark, table, ids, **options):
    days = " UNION ALL ".join(
        f"SELECT explode(array({', '.join(f'{key}L' for key in ids(number))})) AS id, DATE'{day}' AS day, 1 AS amount"
        for number, day in enumerate(DAYS)
    )
    write_rows(spark, table, days, **options)


def planned_again(caplog) -> int:
    return sum("Replanning from the beginning after a conflict" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("on", "vectors"),
    [
        pytest.param(on, vectors, id=f"{name}-{kind}", marks=[] if (name, kind) in SAMPLE else pytest.mark.campaign)
        for name, on in CONDITIONS.items()
        for kind, vectors in {"files": False, "vectors": True}.items()
    ],
)
def test_merges_of_partitions_of_their_own_all_commit_what_they_planned_at_first(
    spark, tmp_path, together, caplog, on, vectors
):
    table = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true"} if vectors else {}
    make(spark, table, ids_of, partition_by=("day",), properties=properties)
    together()
    results = merge_all(spark, table, on, ids_of)
    assert sorted(result.version for result in results) == list(range(1, TASKS + 1))
    assert {result.read_version for result in results} == {0}
    assert planned_again(caplog) == 0
    assert rows(table) == sorted((row for n in range(TASKS) for row in expected_of(n, ids_of(n))), key=repr)
    for result, day in zip(results, DAYS, strict=True):
        actions = commit(table, result.version)
        assert {file["partitionValues"]["day"] for file in actions["add"] + actions["remove"]} == {str(day)}


@pytest.mark.parametrize("tasks", [4, pytest.param(TASKS, marks=pytest.mark.campaign)])
def test_merges_that_nothing_keeps_apart_are_planned_again_and_lose_nothing(spark, tmp_path, together, caplog, tasks):
    table = tmp_path / "t"
    make(spark, table, interleaved)
    together(tasks)
    results = merge_all(spark, table, "target.id = source.id", interleaved, tasks)
    assert sorted(result.version for result in results) == list(range(1, tasks + 1))
    assert planned_again(caplog) >= tasks - 1
    merged = [row for n in range(tasks) for row in expected_of(n, interleaved(n))]
    others = [(key, DAYS[n], 1) for n in range(tasks, TASKS) for key in interleaved(n)]
    assert rows(table) == sorted(merged + others, key=repr)
