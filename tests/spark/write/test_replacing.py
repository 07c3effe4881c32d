"""Writes that replace a part of a table: `replace_where` and dynamic overwrite of partitions."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from deltalite.errors import ConstraintViolationError, InvalidRequestError
from tests.support.daily_rows import DAY_1, DAY_2, DAY_3, by_day, days
from tests.support.loops import one_in
from tests.support.tables import (
    commit,
    data_files,
    delete_rows,
    everything,
    hand_made,
    rows,
    schema_json,
    values,
    write_rows,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def week(spark, tmp_path):
    """Five rows in three partitions, one of them null; one file each."""
    table = tmp_path / "week"
    null = " UNION ALL SELECT 5, CAST(NULL AS DATE)"
    write_rows(spark, table, days("1 1", "2 1", "3 2", "4 2") + null, partition_by=("day",), optimize_write=True)
    return table


@pytest.mark.parametrize(
    ("predicate", "lines", "expected", "copied", "deleted"),
    one_in(
        2,
        [
            # Partition columns alone: whole files go, and no row is read.
            ("day = DATE'2026-01-02'", ["9 2"], {(1, 1), (2, 1), (9, 2), (5, None)}, 0, 2),
            ("day >= DATE'2026-01-02' OR day IS NULL", ["9 2"], {(1, 1), (2, 1), (9, 2)}, 0, 3),
            ("day(day) % 2 = 1", ["9 3"], {(9, 3), (3, 2), (4, 2), (5, None)}, 0, 2),
            ("day = DATE'2026-01-02' AND (id > 0 OR TRUE)", ["9 2"], {(1, 1), (2, 1), (9, 2), (5, None)}, 0, 2),
            ("day = DATE'2026-01-09'", [], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None)}, 0, 0),
            ("TRUE", ["9 2"], {(9, 2)}, 0, 5),
            ("FALSE", [], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None)}, 0, 0),
            # A predicate on data: files without a match stay as they are, the others are rewritten without the matches.
            ("id = 2", ["2 3"], {(1, 1), (2, 3), (3, 2), (4, 2), (5, None)}, 1, 1),
            ("id > 1 AND id < 4", ["3 1"], {(1, 1), (3, 1), (4, 2), (5, None)}, 2, 2),
            ("id IN (1, 2)", [], {(3, 2), (4, 2), (5, None)}, 0, 2),
            ("id = 77", ["77 1"], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None), (77, 1)}, 0, 0),
            # Both: a null day matches neither.
            ("id >= 2 AND day <= DATE'2026-01-02'", ["9 1"], {(1, 1), (9, 1), (5, None)}, 1, 3),
            ("id > 3 OR day = DATE'2026-01-01'", ["9 9"], {(3, 2), (9, 9)}, 1, 4),
            # Functions that the log knows nothing of.
            ("abs(id - 3) <= 1", ["3 3"], {(1, 1), (3, 3), (5, None)}, 1, 3),
        ],
    ),
)
def test_replace_where_replaces_exactly_the_rows_that_match(
    spark, week, tmp_path, predicate, lines, expected, copied, deleted
):
    query = days(*lines) if lines else days("0 1") + " WHERE id > 0"
    done = write_rows(
        spark, week, query, mode="overwrite", replace_where=predicate, confirm_all_rows=predicate == "TRUE"
    )
    assert by_day(week) == expected
    assert (done.metrics["numCopiedRows"], done.metrics["numDeletedRows"]) == (copied, deleted)
    assert done.metrics["numOutputRows"] == len(lines) + copied
    removed = {body["path"] for body in commit(week, 1)["remove"]}
    assert len(removed) == done.metrics["numRemovedFiles"]


@pytest.mark.parametrize("predicate", ["TRUE", "1 = 1", "id = 1 OR 'a' < 'b'"])
def test_a_predicate_that_replaces_every_row_is_confirmed(spark, week, tmp_path, predicate):
    before = everything(week)
    for table in (week, tmp_path / "new"):
        with pytest.raises(InvalidRequestError, match=r"is true for every row.*confirm_all_rows=True"):
            write_rows(spark, table, days("9 2"), mode="overwrite", replace_where=predicate)
    assert everything(week) == before and not (tmp_path / "new").exists()
    write_rows(spark, week, days("9 2"), mode="overwrite", replace_where=predicate, confirm_all_rows=True)
    assert by_day(week) == {(9, 2)}


@pytest.mark.parametrize("properties", [{}, {"delta.enableChangeDataFeed": "true"}], ids=["plain", "feed"])
@pytest.mark.parametrize("vectors", [False, True], ids=["files", "vectors"])
def test_replaced_rows_are_counted_if_files_lack_statistics(spark, tmp_path, properties, vectors):
    table = tmp_path / "t"
    enabled = {"delta.enableDeletionVectors": "true"} if vectors else {}
    write_rows(spark, table, f"{days('1 1', '2 1', '3 2')} CLUSTER BY day", properties={**properties, **enabled})
    if vectors:
        delete_rows(spark, table, "id = 2")
    for name in sorted((table / "_delta_log").glob("*.json")):
        name.write_text(re.sub(r'"stats":"(?:[^"\\\\]|\\\\.)*",?', "", name.read_text()))
    for name in (table / "_delta_log").glob("*.crc"):
        name.unlink()
    deleted = 1 if vectors else 2
    done = write_rows(spark, table, days("1 3"), mode="overwrite", replace_where="id < 3")
    assert done.metrics["numDeletedRows"] == deleted
    assert done.metrics["numOutputRows"] == 1 + done.metrics["numCopiedRows"]
    assert by_day(table) == {(1, 3), (3, 2)}


def test_a_row_for_which_replace_where_is_null_stays(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, name", "1, 'a'", "2, NULL", "3, 'b'", "NULL, 'c'"))
    done = write_rows(
        spark, table, values("id, name", "9, 'a'"), mode="overwrite", replace_where="name = 'a' OR id = 3"
    )
    assert set(rows(table)) == {(9, "a"), (2, None), (None, "c")}
    assert done.metrics["numDeletedRows"] == 2
    done = write_rows(spark, table, values("id, name", "8, 'z'"), mode="overwrite", replace_where="NOT (name = 'a')")
    assert set(rows(table)) == {(9, "a"), (2, None), (8, "z")}


@pytest.mark.parametrize("lines", [["9 2", "8 1"], ["9 2", "7 3"]])
def test_new_rows_outside_the_replaced_range_change_nothing(spark, week, lines):
    before = everything(week)
    for predicate in ("day = DATE'2026-01-02'", "day = DATE'2026-01-02' AND id > 0"):
        with pytest.raises(ConstraintViolationError, match=re.escape(predicate)) as refused:
            write_rows(spark, week, days(*lines), mode="overwrite", replace_where=predicate)
        assert '"id":8' in refused.value.problem or '"id":7' in refused.value.problem
    with pytest.raises(ConstraintViolationError, match='"day":null'):
        write_rows(spark, week, "SELECT 1 AS id, CAST(NULL AS DATE) AS day", mode="overwrite", replace_where=predicate)
    assert everything(week) == before


def test_replace_where_creates_a_table(spark, tmp_path):
    table = tmp_path / "t"
    for predicate, error in (("nope > 1", InvalidRequestError), ("id > 1", ConstraintViolationError)):
        with pytest.raises(error, match="replace_where"):
            write_rows(spark, table, values("id", "1"), mode="overwrite", replace_where=predicate)
        assert not table.exists()
    assert write_rows(spark, table, values("id", "1"), mode="overwrite", replace_where="id = 1").version == 0


def test_dynamic_overwrite_replaces_the_partitions_that_receive_rows(spark, tmp_path):
    table = tmp_path / "t"
    dynamic = {"mode": "overwrite", "partition_overwrite": "dynamic"}
    query = "SELECT *, 'x' AS kind FROM ({})"
    write_rows(spark, table, query.format(days("1 1", "2 2", "3 3")), partition_by=("day", "kind"), **dynamic)
    null = " UNION ALL SELECT 4, CAST(NULL AS DATE), NULL"
    write_rows(spark, table, query.format(days("5 2", "6 2")) + null, **dynamic)
    expected = {(1, DAY_1, "x"), (5, DAY_2, "x"), (6, DAY_2, "x"), (3, DAY_3, "x"), (4, None, None)}
    assert set(rows(table)) == expected
    empty = write_rows(spark, table, query.format(days("9 1")) + " WHERE id < 0", **dynamic)
    assert set(rows(table)) == expected and empty.metrics["numRemovedFiles"] == 0
    write_rows(spark, table, "SELECT 7 AS id, CAST(NULL AS DATE) AS day, NULL AS kind", **dynamic)
    assert set(rows(table)) == (expected - {(4, None, None)}) | {(7, None, None)}
    # Not a blind append even where nothing is removed: two of them may not both stand.
    write_rows(spark, table, query.format(days("8 8")), **dynamic)
    assert commit(table, 4)["remove"] == [] and commit(table, 4)["commitInfo"]["isBlindAppend"] is False
    # A table without partitions is one partition.
    flat = tmp_path / "flat"
    write_rows(spark, flat, values("id", "1"))
    write_rows(spark, flat, values("id", "2"), **dynamic)
    assert rows(flat) == [(2,)]


def test_dynamic_overwrite_compares_values_not_their_spelling(spark, tmp_path):
    """A log can have two spellings of one time, and NaN is one value."""
    table = tmp_path / "t"
    adds = []
    import pyarrow as pa
    import pyarrow.parquet as pq

    table.mkdir()
    spellings = (
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T01:00:00+01:00",
        "2026-01-02 00:00:00",
    )
    for number, at in enumerate(spellings):
        pq.write_table(pa.table({"id": [number]}), table / f"{number}.parquet")
        partition = {"at": at, "x": "NaN", "amount": "1.50"}
        adds.append({"path": f"{number}.parquet", "size": 1000, "partitionValues": partition})
    fields = (("id", "long"), ("at", "timestamp"), ("x", "double"), ("amount", "decimal(5,2)"))
    hand_made(table, schema_json(*fields), adds, ("at", "x", "amount"))
    row = "9L, TIMESTAMP'2026-01-01 00:00:00Z', DOUBLE('NaN'), CAST(1.5 AS DECIMAL(5,2))"
    write_rows(spark, table, values("id, at, x, amount", row), mode="overwrite", partition_overwrite="dynamic")
    assert {(number, amount) for number, _, _, amount in rows(table)} == {(3, Decimal("1.50")), (9, Decimal("1.50"))}
    write_rows(spark, table, values("id, at, x, amount", row), mode="overwrite", replace_where="x = DOUBLE('NaN')")
    assert [r[0] for r in rows(table)] == [9]


def test_a_replacing_write_leaves_only_data_and_log_files(spark, week):
    write_rows(spark, week, days("3 2"), mode="overwrite", replace_where="id = 3")
    top = {name.name for name in week.iterdir()}
    assert top == {"_delta_log", "day=2026-01-01", "day=2026-01-02", "day=__HIVE_DEFAULT_PARTITION__"}
    live = set(DeltaTable(str(week)).files()["path"].to_pylist())
    dead = {body["path"] for body in commit(week, 1)["remove"]}
    assert data_files(week) == live | dead
