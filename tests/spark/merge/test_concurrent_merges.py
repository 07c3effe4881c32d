"""Concurrent merges into one table: merges with disjoint read sets do not conflict.

Each merge runs in a thread with a separate session and changes a separate day, as mapped tasks do. No merge commits
before all merges have planned on the same version, so the same conflicts arise in every run. The tests count the
replans by their log lines.
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
from tests.support.tables import UNUSED_SOURCE, actions_of, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]

TASKS, ROWS = 8, 20
SAMPLED_TASKS = 3
"""The number of tasks in `make test`. The campaign runs all tasks."""
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
    "a literal day": "target.day = DATE'{day}' AND target.id = source.id",
    "the source's days": "target.day = source.day AND target.id = source.id",
    "the source's keys": "target.id = source.id",
}
SAMPLE = {("the source's days", "vectors")}


def contiguous_ids(number: int) -> range:
    """The ids of a day, in a range that contains no id of another day."""
    return range(1000 * number, 1000 * number + ROWS)


def interleaved_ids(number: int) -> range:
    """The ids of a day, between the ids of other days."""
    return range(number, TASKS * ROWS, TASKS)


def source_query(number: int, ids) -> str:
    """The query for source rows that delete the first row of a day, update its middle row and insert a row.

    If ids are interleaved, the id of the middle row lies within the bounds of every other day's files.
    """
    new_id = ids[-1] + ids.step
    source_rows = [(ids[0], "NULL"), (ids[MIDDLE], "5"), (new_id, "7")]
    values = ", ".join(f"({key}L, DATE'{DAYS[number]}', CAST({amount} AS INT))" for key, amount in source_rows)
    return f"SELECT * FROM VALUES {values} AS rows(id, day, amount)"


def expected_rows(number: int, ids) -> list[tuple]:
    """The rows of a day after the merge of its source rows."""
    unchanged_rows = [(key, DAYS[number], 1) for key in ids[1:] if key != ids[MIDDLE]]
    return [*unchanged_rows, (ids[MIDDLE], DAYS[number], 5), (ids[-1] + ids.step, DAYS[number], 7)]


@pytest.fixture
def hold_first_commits(monkeypatch):
    """Return `hold(tasks)`, which delays the first commit of each thread until all threads have planned."""
    thread_state, barriers = threading.local(), []
    write_if_absent = LocalLogStore.write_if_absent

    def write_after_all_threads_planned(store, name, data):
        parsed_name = parse_log_name(name)
        is_commit = parsed_name is not None and parsed_name.kind is LogFileKind.COMMIT
        if is_commit and not getattr(thread_state, "planned", False):
            thread_state.planned = True
            barriers[0].wait()
        return write_if_absent(store, name, data)

    def hold(tasks):
        barriers.append(threading.Barrier(tasks, timeout=120))
        monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_all_threads_planned)

    yield hold
    for barrier in barriers:
        barrier.abort()


def merge_concurrently(spark, table, on, ids_of_day, tasks):
    """Merge the changes of the first `tasks` days concurrently; return the results in the order of the days.

    `ids_of_day` is `contiguous_ids` or `interleaved_ids`.
    """

    def merge_one_day(number):
        return merge(
            spark.newSession(),
            MergeRequest(
                table=str(table),
                sources={"source": UNUSED_SOURCE},
                query=source_query(number, ids_of_day(number)),
                on=on.format(day=DAYS[number]),
                identity=RunIdentity(app_id=f"ns/dag/merge/{number}/run"),
                conflict_retries=2 * TASKS,
                **CLAUSES,
            ),
        )

    with ThreadPoolExecutor(tasks) as pool:
        return list(pool.map(merge_one_day, range(tasks)))


def write_all_days(spark, table, ids_of_day, **options):
    """Write the initial rows of every day; `ids_of_day` is `contiguous_ids` or `interleaved_ids`."""
    id_lists = [", ".join(f"{key}L" for key in ids_of_day(number)) for number in range(TASKS)]
    query = " UNION ALL ".join(
        f"SELECT explode(array({id_list})) AS id, DATE'{day}' AS day, 1 AS amount"
        for id_list, day in zip(id_lists, DAYS, strict=True)
    )
    write_rows(spark, table, query, **options)


def count_replans(caplog) -> int:
    return sum("; the new attempt starts from the beginning)" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("on", "vectors"),
    [
        pytest.param(on, vectors, id=f"{name}-{kind}", marks=[] if (name, kind) in SAMPLE else pytest.mark.campaign)
        for name, on in CONDITIONS.items()
        for kind, vectors in {"files": False, "vectors": True}.items()
    ],
)
def test_concurrent_merges_of_separate_partitions_commit_without_a_replan(
    spark, tmp_path, hold_first_commits, caplog, pytestconfig, on, vectors
):
    table, tasks = tmp_path / "t", TASKS if pytestconfig.getoption("--campaign") else SAMPLED_TASKS
    properties = {"delta.enableDeletionVectors": "true"} if vectors else {}
    write_all_days(spark, table, contiguous_ids, partition_by=("day",), properties=properties)
    hold_first_commits(tasks)
    results = merge_concurrently(spark, table, on, contiguous_ids, tasks)
    assert sorted(result.version for result in results) == list(range(1, tasks + 1))
    assert {result.read_version for result in results} == {0}
    assert count_replans(caplog) == 0
    merged_rows = [row for n in range(tasks) for row in expected_rows(n, contiguous_ids(n))]
    unchanged_rows = [(key, DAYS[n], 1) for n in range(tasks, TASKS) for key in contiguous_ids(n)]
    assert rows(table) == sorted(merged_rows + unchanged_rows, key=repr)
    for result, day in zip(results, DAYS[:tasks], strict=True):
        actions = actions_of(table, result.version)
        assert {file["partitionValues"]["day"] for file in actions["add"] + actions["remove"]} == {str(day)}


@pytest.mark.campaign
@pytest.mark.parametrize("tasks", [4, TASKS])
def test_concurrent_merges_of_the_same_files_replan_and_lose_no_change(
    spark, tmp_path, hold_first_commits, caplog, tasks
):
    table = tmp_path / "t"
    write_all_days(spark, table, interleaved_ids)
    hold_first_commits(tasks)
    results = merge_concurrently(spark, table, "target.id = source.id", interleaved_ids, tasks)
    assert sorted(result.version for result in results) == list(range(1, tasks + 1))
    assert count_replans(caplog) >= tasks - 1
    merged_rows = [row for n in range(tasks) for row in expected_rows(n, interleaved_ids(n))]
    unchanged_rows = [(key, DAYS[n], 1) for n in range(tasks, TASKS) for key in interleaved_ids(n)]
    assert rows(table) == sorted(merged_rows + unchanged_rows, key=repr)
