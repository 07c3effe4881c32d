"""With deletion vectors, the search for matching rows already gives their positions, unless there are very many."""

from __future__ import annotations

import pytest

from deltalite.commands.row_changes import files
from deltalite.spark.row_changes import selecting
from tests.support.properties import VECTORS
from tests.support.tables import delete_rows, rows, sorted_rows, spark_rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture
def searches(monkeypatch):
    """The searches for positions that a write does after the search for matching rows."""
    calls, positions_by_file = [], files.positions_by_file

    def record(*arguments, **options):
        calls.append(options)
        return positions_by_file(*arguments, **options)

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


def test_a_file_is_removed_whole_if_all_its_live_rows_match(spark, tmp_path, searches):
    table = tmp_path / "t"
    for first in (0, 100):
        write_rows(spark, table, f"SELECT id, 1 AS x FROM range({first}, {first + 100}, 1, 1)", properties=VECTORS)
    delete_rows(spark, table, "id < 20")
    result = delete_rows(spark, table, "id < 105 AND x = 1")
    assert result.metrics["numRemovedFiles"] == 1 and result.metrics["numDeletionVectorsAdded"] == 1
    assert rows(table) == [(number, 1) for number in range(105, 200)]
    assert searches == []
