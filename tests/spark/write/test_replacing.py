"""Writes that replace a part of a table: `replace_where` and dynamic overwrite of partitions."""

from __future__ import annotations

import re
import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.errors import ConstraintViolationError, InvalidRequestError
from tests.support.daily_rows import DAY_1, DAY_2, DAY_3, daily_rows_query, ids_and_days
from tests.support.selection import sample_every, sampled
from tests.support.tables import (
    actions_of,
    data_files,
    delete_rows,
    folder_content,
    rows,
    schema_json,
    values,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture(scope="module")
def daily_template(spark, tmp_path_factory):
    """A table with five rows in three partitions, each of one file. The day of the third partition is null."""
    table = tmp_path_factory.mktemp("template") / "daily"
    query = daily_rows_query("1 1", "2 1", "3 2", "4 2") + " UNION ALL SELECT 5, CAST(NULL AS DATE)"
    write_rows(spark, table, query, partition_by=("day",), optimize_write=True)
    return table


@pytest.fixture
def daily_table(daily_template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(daily_template, tmp_path / "daily")


@pytest.mark.parametrize(
    ("predicate", "new_rows", "expected", "copied_count", "deleted_count"),
    sample_every(
        2,
        [
            # Predicates on partition columns only: the write removes whole files and reads no row.
            ("day = DATE'2026-01-02'", ["9 2"], {(1, 1), (2, 1), (9, 2), (5, None)}, 0, 2),
            ("day >= DATE'2026-01-02' OR day IS NULL", ["9 2"], {(1, 1), (2, 1), (9, 2)}, 0, 3),
            ("day(day) % 2 = 1", ["9 3"], {(9, 3), (3, 2), (4, 2), (5, None)}, 0, 2),
            ("day = DATE'2026-01-02' AND (id > 0 OR TRUE)", ["9 2"], {(1, 1), (2, 1), (9, 2), (5, None)}, 0, 2),
            ("day = DATE'2026-01-09'", [], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None)}, 0, 0),
            ("TRUE", ["9 2"], {(9, 2)}, 0, 5),
            ("FALSE", [], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None)}, 0, 0),
            # Predicates on data columns: the write keeps files without a match, and rewrites the others.
            ("id = 2", ["2 3"], {(1, 1), (2, 3), (3, 2), (4, 2), (5, None)}, 1, 1),
            ("id > 1 AND id < 4", ["3 1"], {(1, 1), (3, 1), (4, 2), (5, None)}, 2, 2),
            ("id IN (1, 2)", [], {(3, 2), (4, 2), (5, None)}, 0, 2),
            ("id = 77", ["77 1"], {(1, 1), (2, 1), (3, 2), (4, 2), (5, None), (77, 1)}, 0, 0),
            # Predicates on columns of both kinds: a row with a null day does not match.
            ("id >= 2 AND day <= DATE'2026-01-02'", ["9 1"], {(1, 1), (9, 1), (5, None)}, 1, 3),
            ("id > 3 OR day = DATE'2026-01-01'", ["9 9"], {(3, 2), (9, 9)}, 1, 4),
            # A predicate with a function that statistics cannot decide.
            ("abs(id - 3) <= 1", ["3 3"], {(1, 1), (3, 3), (5, None)}, 1, 3),
        ],
    ),
)
def test_replace_where_replaces_exactly_the_rows_that_match(
    spark, daily_table, predicate, new_rows, expected, copied_count, deleted_count
):
    query = daily_rows_query(*new_rows) if new_rows else daily_rows_query("0 1") + " WHERE id > 0"
    result = write_rows(
        spark, daily_table, query, mode="overwrite", replace_where=predicate, confirm_all_rows=predicate == "TRUE"
    )
    assert ids_and_days(daily_table) == expected
    assert (result.metrics["numCopiedRows"], result.metrics["numDeletedRows"]) == (copied_count, deleted_count)
    assert result.metrics["numOutputRows"] == len(new_rows) + copied_count
    removed_paths = {remove["path"] for remove in actions_of(daily_table, 1)["remove"]}
    assert len(removed_paths) == result.metrics["numRemovedFiles"]


@pytest.mark.parametrize("predicate", ["TRUE", "1 = 1", "id = 1 OR 'a' < 'b'"])
def test_a_predicate_that_replaces_every_row_requires_confirm_all_rows(spark, daily_table, tmp_path, predicate):
    content_before = folder_content(daily_table)
    for table in (daily_table, tmp_path / "new"):
        with pytest.raises(InvalidRequestError, match=r"is true for every row.*confirm_all_rows=True"):
            write_rows(spark, table, daily_rows_query("9 2"), mode="overwrite", replace_where=predicate)
    assert folder_content(daily_table) == content_before and not (tmp_path / "new").exists()
    write_rows(
        spark, daily_table, daily_rows_query("9 2"), mode="overwrite", replace_where=predicate, confirm_all_rows=True
    )
    assert ids_and_days(daily_table) == {(9, 2)}


@pytest.mark.parametrize(
    "properties",
    sampled([{}, {"delta.enableChangeDataFeed": "true"}], [{"delta.enableChangeDataFeed": "true"}]),
    ids=["plain", "feed"],
)
@pytest.mark.parametrize("vectors", [False, True], ids=["files", "vectors"])
def test_replaced_rows_are_counted_if_files_lack_statistics(spark, tmp_path, properties, vectors):
    table = tmp_path / "t"
    vector_property = {"delta.enableDeletionVectors": "true"} if vectors else {}
    query = f"{daily_rows_query('1 1', '2 1', '3 2')} CLUSTER BY day"
    write_rows(spark, table, query, properties={**properties, **vector_property})
    if vectors:
        delete_rows(spark, table, "id = 2")
    for commit_file in sorted((table / "_delta_log").glob("*.json")):
        commit_file.write_text(re.sub(r'"stats":"(?:[^"\\\\]|\\\\.)*",?', "", commit_file.read_text()))
    for checksum_file in (table / "_delta_log").glob("*.crc"):
        checksum_file.unlink()
    result = write_rows(spark, table, daily_rows_query("1 3"), mode="overwrite", replace_where="id < 3")
    assert result.metrics["numDeletedRows"] == (1 if vectors else 2)
    assert result.metrics["numOutputRows"] == 1 + result.metrics["numCopiedRows"]
    assert ids_and_days(table) == {(1, 3), (3, 2)}


def test_a_row_for_which_replace_where_is_null_stays(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, name", "1, 'a'", "2, NULL", "3, 'b'", "NULL, 'c'"))
    result = write_rows(
        spark, table, values("id, name", "9, 'a'"), mode="overwrite", replace_where="name = 'a' OR id = 3"
    )
    assert set(rows(table)) == {(9, "a"), (2, None), (None, "c")}
    assert result.metrics["numDeletedRows"] == 2
    result = write_rows(spark, table, values("id, name", "8, 'z'"), mode="overwrite", replace_where="NOT (name = 'a')")
    assert set(rows(table)) == {(9, "a"), (2, None), (8, "z")}


@pytest.mark.parametrize("new_rows", [["9 2", "8 1"], ["9 2", "7 3"]])
def test_new_rows_that_do_not_match_replace_where_are_rejected(spark, daily_table, new_rows):
    content_before = folder_content(daily_table)
    for predicate in ("day = DATE'2026-01-02'", "day = DATE'2026-01-02' AND id > 0"):
        with pytest.raises(ConstraintViolationError, match=re.escape(predicate)) as error_info:
            write_rows(spark, daily_table, daily_rows_query(*new_rows), mode="overwrite", replace_where=predicate)
        assert '"id":8' in error_info.value.problem or '"id":7' in error_info.value.problem
    with pytest.raises(ConstraintViolationError, match='"day":null'):
        write_rows(
            spark, daily_table, "SELECT 1 AS id, CAST(NULL AS DATE) AS day", mode="overwrite", replace_where=predicate
        )
    assert folder_content(daily_table) == content_before


def test_replace_where_creates_a_table_if_all_rows_match(spark, tmp_path):
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
    write_rows(
        spark, table, query.format(daily_rows_query("1 1", "2 2", "3 3")), partition_by=("day", "kind"), **dynamic
    )
    null_row = " UNION ALL SELECT 4, CAST(NULL AS DATE), NULL"
    write_rows(spark, table, query.format(daily_rows_query("5 2", "6 2")) + null_row, **dynamic)
    expected = {(1, DAY_1, "x"), (5, DAY_2, "x"), (6, DAY_2, "x"), (3, DAY_3, "x"), (4, None, None)}
    assert set(rows(table)) == expected
    result = write_rows(spark, table, query.format(daily_rows_query("9 1")) + " WHERE id < 0", **dynamic)
    assert set(rows(table)) == expected and result.metrics["numRemovedFiles"] == 0
    write_rows(spark, table, "SELECT 7 AS id, CAST(NULL AS DATE) AS day, NULL AS kind", **dynamic)
    assert set(rows(table)) == (expected - {(4, None, None)}) | {(7, None, None)}
    # The write is not a blind append even if it removes no file: two such concurrent writes to one partition conflict.
    write_rows(spark, table, query.format(daily_rows_query("8 8")), **dynamic)
    assert actions_of(table, 4)["remove"] == [] and actions_of(table, 4)["commitInfo"]["isBlindAppend"] is False
    # A table without partition columns counts as one partition.
    unpartitioned = tmp_path / "unpartitioned"
    write_rows(spark, unpartitioned, values("id", "1"))
    write_rows(spark, unpartitioned, values("id", "2"), **dynamic)
    assert rows(unpartitioned) == [(2,)]


def test_an_overwrite_compares_partition_values_and_not_their_texts(spark, tmp_path):
    """A log may have several texts for one time, and NaN equals NaN."""
    table = tmp_path / "t"
    adds = []
    table.mkdir()
    texts = (
        "2026-01-01 00:00:00",
        "2026-01-01T00:00:00.000000Z",
        "2026-01-01T01:00:00+01:00",
        "2026-01-02 00:00:00",
    )
    for number, text in enumerate(texts):
        pq.write_table(pa.table({"id": [number]}), table / f"{number}.parquet")
        partition_values = {"at": text, "x": "NaN", "amount": "1.50"}
        adds.append({"path": f"{number}.parquet", "size": 1000, "partitionValues": partition_values})
    fields = (("id", "long"), ("at", "timestamp"), ("x", "double"), ("amount", "decimal(5,2)"))
    write_foreign_table(table, schema_json(*fields), adds, ("at", "x", "amount"))
    row = "9L, TIMESTAMP'2026-01-01 00:00:00Z', DOUBLE('NaN'), CAST(1.5 AS DECIMAL(5,2))"
    write_rows(spark, table, values("id, at, x, amount", row), mode="overwrite", partition_overwrite="dynamic")
    assert {(number, amount) for number, _, _, amount in rows(table)} == {(3, Decimal("1.50")), (9, Decimal("1.50"))}
    write_rows(spark, table, values("id, at, x, amount", row), mode="overwrite", replace_where="x = DOUBLE('NaN')")
    assert [r[0] for r in rows(table)] == [9]


def test_a_replacing_write_leaves_only_data_and_log_files(spark, daily_table):
    write_rows(spark, daily_table, daily_rows_query("3 2"), mode="overwrite", replace_where="id = 3")
    names = {path.name for path in daily_table.iterdir()}
    assert names == {"_delta_log", "day=2026-01-01", "day=2026-01-02", "day=__HIVE_DEFAULT_PARTITION__"}
    current_files = set(DeltaTable(str(daily_table)).files()["path"].to_pylist())
    removed_files = {remove["path"] for remove in actions_of(daily_table, 1)["remove"]}
    assert data_files(daily_table) == current_files | removed_files
