"""With deletion vectors, the search for matching rows already gives their positions.

A delete or an update keeps them, unless there are very many. A merge takes them from its pairs of matching rows.
"""

from __future__ import annotations

import re

import pytest

from deltalite.commands.row_changes import files, selected_rows
from deltalite.spark.row_changes import selecting
from tests.support.merging import merge_into
from tests.support.properties import VECTORS
from tests.support.tables import delete_rows, rows, sorted_rows, spark_rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture
def searches(monkeypatch):
    """The leaves of the plan of each search for positions. The search for matching rows is not among them."""
    calls, positions_by_file = [], files.positions_by_file

    def record(rows, **options):
        calls.append(rows._jdf.queryExecution().optimizedPlan().collectLeaves().toString())
        return positions_by_file(rows, **options)

    monkeypatch.setattr(files, "positions_by_file", record)
    return calls


@pytest.mark.parametrize(("max_positions", "num_searches"), [(selecting.MAX_POSITIONS, 0), (4, 3)])
def test_positions_are_searched_again_only_if_there_are_too_many(
    spark, tmp_path, monkeypatch, searches, max_positions, num_searches
):
    monkeypatch.setattr(selecting, "MAX_POSITIONS", max_positions)
    table = tmp_path / "t"
    for first in (0, 100, 200):
        write_rows(
            spark, table, f"SELECT id, id % 10 AS x FROM range({first}, {first + 100}, 1, 1)", properties=VECTORS
        )
    expected = {number: number % 10 for number in range(300)}
    delete_rows(spark, table, "x = 3 AND id >= 100")
    update_rows(spark, table, {"x": "x + 100"}, "x IN (3, 4) AND id < 250")
    update_rows(spark, table, {"x": "-1"}, "id % 50 = 4")  # rows of files with vectors, and of new files
    expected = {number: x for number, x in expected.items() if x != 3 or number < 100}
    expected |= {number: x + 100 for number, x in expected.items() if x in (3, 4) and number < 250}
    expected |= {number: -1 for number in expected if number % 50 == 4}
    assert rows(table) == spark_rows(spark, table) == sorted_rows(expected.items())
    assert len(searches) == num_searches


def test_a_delete_with_known_positions_does_not_scan_its_files_again(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id FROM range(0, 10, 1, 1)", properties=VECTORS)
    monkeypatch.setattr(selected_rows, "rows_changed_by", None)
    delete_rows(spark, table, "id < 4")
    delete_rows(spark, table, "id = 7")
    assert rows(table) == spark_rows(spark, table) == [(4,), (5,), (6,), (8,), (9,)]


def test_a_file_is_removed_whole_if_all_its_live_rows_match(spark, tmp_path, searches):
    table = tmp_path / "t"
    for first in (0, 100):
        write_rows(spark, table, f"SELECT id, 1 AS x FROM range({first}, {first + 100}, 1, 1)", properties=VECTORS)
    delete_rows(spark, table, "id < 20")
    result = delete_rows(spark, table, "id < 105 AND x = 1")
    assert result.metrics["numRemovedFiles"] == 1 and result.metrics["numDeletionVectorsAdded"] == 1
    assert rows(table) == [(number, 1) for number in range(105, 200)]
    assert searches == []


CHANGE_WITH_PAIR = ({"condition": "source.v < 0", "delete": True}, {"condition": "source.v > 1", "update": "*"})
CHANGE_WITHOUT_PAIR = ({"condition": "target.id = 1", "update": {"v": "v + 1"}},)


@pytest.mark.parametrize(("by_source", "is_read_again"), [((), False), (CHANGE_WITHOUT_PAIR, True)])
def test_a_merge_takes_positions_from_its_pairs_unless_it_changes_rows_without_a_pair(
    spark, tmp_path, searches, by_source, is_read_again
):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id, 0 AS v FROM range(0, 10, 1, 2)", properties=VECTORS)
    source = values("id, v", "3L, 3", "4L, 1", "5L, -1", "12L, 12")
    inserts = ({"insert": "*"},)
    merge_into(
        spark, table, source, "target.id = source.id", matched=CHANGE_WITH_PAIR, inserts=inserts, by_source=by_source
    )
    changed = {3: 3, 12: 12} | ({1: 1} if by_source else {})
    expected = {number: 0 for number in range(10) if number != 5} | changed
    assert rows(table) == spark_rows(spark, table) == sorted_rows(expected.items())
    (leaves,) = searches
    assert bool(re.search(r"(?<!InMemory)Relation \[", leaves)) is is_read_again, leaves
