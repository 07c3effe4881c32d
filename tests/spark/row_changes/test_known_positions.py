"""With deletion vectors, the search for matching rows already gives their positions.

A delete or an update keeps these positions, unless there are very many. A merge takes the positions from its pairs of
matching rows. It takes the new rows from the pairs too, unless the new rows depend on the old rows.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltalite.commands.merge import command
from deltalite.commands.row_changes import files, selected_rows
from deltalite.spark.merge import matching
from deltalite.spark.row_changes import selecting
from deltalite.spark.runtime.session import settings
from deltalite.spark.scan import row_positions
from tests.support.merging import merge_into
from tests.support.properties import VECTORS
from tests.support.tables import delete_rows, ids, rows, sorted_rows, spark_rows, update_rows, values, write_rows

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
def test_only_too_many_positions_are_searched_again(
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


@pytest.mark.parametrize("max_few_positions", [row_positions.MAX_FEW_POSITIONS, -1])
@pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "files"])
def test_changed_rows_are_counted_in_small_and_in_large_tables(
    spark, tmp_path, monkeypatch, properties, max_few_positions
):
    monkeypatch.setattr(row_positions, "MAX_FEW_POSITIONS", max_few_positions)
    table = tmp_path / "t"
    for first in (0, 100, 200):
        write_rows(spark, table, f"SELECT id, 0 AS x FROM range({first}, {first + 100}, 1, 1)", properties=properties)
    updated = update_rows(spark, table, {"x": "1"}, "id % 50 = 4 AND id + x < 200")
    deleted = delete_rows(spark, table, "id % 50 = 5 AND id + x < 100")
    assert updated.metrics["numUpdatedRows"] == 4 and deleted.metrics["numDeletedRows"] == 2
    expected = {number: int(number in (4, 54, 104, 154)) for number in range(300) if number not in (5, 55)}
    assert rows(table) == spark_rows(spark, table) == sorted_rows(expected.items())


CHANGES = ({"condition": "source.v < 0", "delete": True}, {"condition": "source.v > 1", "update": "*"})
CHANGES_BY_TABLE = (CHANGES[0], {"condition": "source.v > 1", "update": {"v": "target.v + source.v"}})
CHANGES_BY_SOURCE = (CHANGES[0], {"condition": "source.v > 1", "update": {"id": "source.id", "v": "source.v"}})
CHANGE_WITHOUT_PAIR = ({"condition": "target.id = 1", "update": {"v": "v + 1"}},)
FEED = VECTORS | {"delta.enableChangeDataFeed": "true"}
ROW_IDS = VECTORS | {"delta.enableRowTracking": "true"}


@pytest.fixture
def table_scans(monkeypatch):
    """The number of files in each scan of the table by a merge."""
    file_counts, scan_addressed = [], command.scan_addressed

    def record(spark, snapshot, files, **options):
        file_counts.append(files.num_rows)
        return scan_addressed(spark, snapshot, files, **options)

    monkeypatch.setattr(command, "scan_addressed", record)
    return file_counts


@pytest.mark.parametrize("max_few_positions", [row_positions.MAX_FEW_POSITIONS, 5, 0])
@pytest.mark.parametrize(
    ("changes", "properties", "by_source", "num_scans"),
    [
        (CHANGES, VECTORS, (), 1),
        (CHANGES_BY_SOURCE, VECTORS, (), 1),
        (CHANGES_BY_TABLE, VECTORS, (), 2),
        (CHANGES, FEED, (), 2),
        (CHANGES, ROW_IDS, (), 2),
        (CHANGES, VECTORS, CHANGE_WITHOUT_PAIR, 3),
        (CHANGES, {}, (), 2),
    ],
    ids=["all columns", "values of the source", "values of the table", "feed", "row ids", "no pair", "no vectors"],
)
def test_a_merge_reads_the_table_again_only_if_its_pairs_lack_values(
    spark, tmp_path, monkeypatch, table_scans, changes, properties, by_source, num_scans, max_few_positions
):
    for module in (matching, command):
        monkeypatch.setattr(module, "MAX_FEW_POSITIONS", max_few_positions)
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id, 0 AS v FROM range(0, 10, 1, 2)", properties=properties)
    source = values("id, v", "3L, 3", "4L, 1", "5L, -1", "8L, -1", "12L, 12")
    inserts = ({"insert": "*"},)
    merge_into(spark, table, source, "target.id = source.id", matched=changes, inserts=inserts, by_source=by_source)
    changed = {3: 3, 12: 12} | ({1: 1} if by_source else {})
    expected = {number: 0 for number in range(10) if number not in (5, 8)} | changed
    assert rows(table) == spark_rows(spark, table) == sorted_rows(expected.items())
    assert len(table_scans) == num_scans


def test_a_merge_makes_no_bitmaps_for_few_pairs_of_one_task(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(matching, "MAX_FEW_POSITIONS", 3)
    monkeypatch.setattr(row_positions.F, "bitmap_construct_agg", None)
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id FROM range(0, 10, 1, 1)", properties=VECTORS)
    source = values("id", "3L", "3L", "5L")
    merge_into(spark, table, source, "target.id = source.id", matched=({"delete": True},))
    assert ids(table) == [0, 1, 2, 4, 6, 7, 8, 9]


def test_a_struct_of_the_source_may_have_the_alias_of_the_table_as_its_name(spark, tmp_path, table_scans):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id, 0 AS v FROM range(0, 4, 1, 1)", properties=VECTORS)
    source = "SELECT 1L AS id, named_struct('v', 5, 'other', 6) AS target"
    on = "target.id = source.id"
    merge_into(spark, table, source, on, matched=({"update": {"id": "source.id", "v": "target.other"}},))
    assert rows(table) == [(0, 0), (1, 6), (2, 0), (3, 0)] and len(table_scans) == 1
    merge_into(spark, table, source, on, matched=({"update": {"id": "source.id", "v": "target.v + 1"}},))
    assert rows(table) == [(0, 0), (1, 7), (2, 0), (3, 0)], "target.v is the column of the table"


MAX_FEW, MAX_BITMAPS = row_positions.MAX_FEW_POSITIONS, row_positions._MAX_BITMAPS_IN_ONE_COLLECTION


@pytest.mark.parametrize(
    ("row_counts", "method"),
    [
        ([MAX_FEW - 1, 1], "toArrow"),
        ([MAX_FEW, 1], "collect"),
        ([32_768 * (MAX_BITMAPS - 1)], "collect"),
        ([32_768 * MAX_BITMAPS], "toLocalIterator"),
        ([MAX_FEW] + [1] * MAX_BITMAPS, "toLocalIterator"),
        ([2**62, 2**62], "toLocalIterator"),
        ([1, None], "toLocalIterator"),
        (None, "toLocalIterator"),
    ],
    ids=[
        "few rows",
        "more rows",
        "largest file",
        "larger file",
        "many files",
        "sum above 64 bits",
        "unknown number",
        "unknown files",
    ],
)
def test_each_way_to_collect_positions_returns_the_same_positions(spark, monkeypatch, row_counts, method):
    row_counts = None if row_counts is None else pa.chunked_array([pa.array(row_counts, pa.int64())])
    frame = spark.sql("SELECT id % 7 AS file, id * 7919 % 100000 AS row FROM range(0, 5000, 1, 3) WHERE id % 7 <> 4")
    expected = {
        file: sorted(number * 7919 % 100000 for number in range(file, 5000, 7)) for file in range(7) if file != 4
    }
    calls = []

    def record(name, collect):
        def record_and_collect(rows):
            calls.append(name)
            return collect(rows)

        monkeypatch.setattr(type(frame), name, record_and_collect)

    for collecting_method in ("toArrow", "collect", "toLocalIterator"):
        record(collecting_method, getattr(type(frame), collecting_method))
    positions = row_positions.positions_by_file(frame, file="file", row="row", row_counts=row_counts)
    assert {file: rows.to_pylist() for file, rows in positions} == expected
    assert calls == [method]
    no_rows = frame.where("row < 0")
    assert not dict(row_positions.positions_by_file(no_rows, file="file", row="row", row_counts=row_counts))


def test_the_driver_gets_many_bitmaps_in_parts(spark, monkeypatch):
    monkeypatch.setattr(row_positions, "_MAX_BITMAPS_IN_ONE_COLLECTION", 20)
    part_counts = []
    iterate = type(spark.range(0)).toLocalIterator

    def record(rows):
        part_counts.append(rows.rdd.getNumPartitions())
        return iterate(rows)

    monkeypatch.setattr(type(spark.range(0)), "toLocalIterator", record)
    frame = spark.range(0, 90, 1, 1).selectExpr("id AS file", "id + 5 AS row")
    with settings(spark, {"spark.sql.adaptive.enabled": "true"}):
        for row_count in (3_000, 2**62):
            row_counts = pa.chunked_array([pa.array([row_count] * 90, pa.int64())])
            positions = row_positions.positions_by_file(frame, file="file", row="row", row_counts=row_counts)
            assert {file: rows.to_pylist() for file, rows in positions} == {file: [file + 5] for file in range(90)}
            monkeypatch.setattr(row_positions, "_MAX_PARTITIONS", 3)
    assert part_counts == [5, 3]
