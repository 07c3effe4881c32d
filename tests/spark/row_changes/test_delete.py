"""DELETE removes exactly the rows for which the condition is true, in every kind of table."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.errors import AppendOnlyError, CorruptDataFileError, InvalidRequestError, TableNotFoundError
from deltalite.protocol.file_names import commit_name
from tests.support.merging import feed
from tests.support.properties import FEED, VECTORS
from tests.support.tables import (
    actions_of,
    data_files,
    delete_rows,
    delta_rs_rows,
    folder_content,
    ids,
    rows,
    schema_json,
    sorted_rows,
    spark_rows,
    update_rows,
    values,
    write_data_file,
    write_foreign_table,
    write_numbered_file,
    write_rows,
)
from tests.support.vectors import inline_vector

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

KINDS = {"plain": {}, "vectors": VECTORS, "feed": FEED, "vectors and feed": {**VECTORS, **FEED}}
# This pair covers vectors, a feed and partitions. The campaign runs every pair.
SAMPLE = {("vectors and feed", ("day",))}
INITIAL_ROWS = [(1, 10, "a"), (2, None, "a"), (3, 0, "a"), (4, 7, "b"), (5, None, "b"), (6, 9, None), (7, 8, None)]


def write_table(spark, table, properties=None, **options):
    """Write a table with the `INITIAL_ROWS`; returns its folder."""
    lines = [str(row)[1:-1].replace("None", "NULL") for row in INITIAL_ROWS]
    write_rows(spark, table, values("id, x, day", *lines), properties=properties or {}, **options)
    return table


STEPS = [
    ("x = NULL OR x < 0", []),
    ("Target.X > 9 AND `day` = 'a'", [1]),
    ("NOT (x > 0)", [3]),
    ("x IS NULL AND target.id < 5", [2]),
    ("day <=> NULL AND x = 8", [7]),
    ("day IS NULL", [6]),
    ("id >= 0 AND x <> 0 AND 10 / x > 1", [4]),
    ("false", []),
    ("day = 'b' OR NULL", [5]),
]
"""Conditions that run one after the other, each with the ids that it deletes."""


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [
        pytest.param(kind, columns, marks=[] if (kind, columns) in SAMPLE else pytest.mark.campaign)
        for kind in KINDS
        for columns in ((), ("day",))
    ],
    ids=str,
)
def test_delete_removes_exactly_the_rows_for_which_the_condition_is_true(spark, tmp_path, kind, partition_by):
    table = write_table(spark, tmp_path / "t", KINDS[kind], partition_by=partition_by)
    remaining_rows = {row[0]: row for row in INITIAL_ROWS}
    for condition, deleted_ids in STEPS:
        result = delete_rows(spark, table, condition)
        assert result.committed is bool(deleted_ids), condition
        deleted_rows = [remaining_rows.pop(number) for number in deleted_ids]
        assert rows(table) == sorted_rows(remaining_rows.values()) == delta_rs_rows(table), condition
        if deleted_ids:
            info = actions_of(table, result.version)["commitInfo"]
            assert result.metrics["numDeletedRows"] == len(deleted_ids), condition
            assert json.loads(info["operationParameters"]["predicate"]) == [condition]
            assert not info["isBlindAppend"]
            if "feed" in kind:
                assert feed(table, result.version) == sorted_rows(("delete", *row) for row in deleted_rows), condition
            if "vectors" in kind:
                assert result.metrics["numAddedFiles"] == result.metrics["numCopiedRows"] == 0
                assert all("tightBounds" in add["stats"] for add in actions_of(table, result.version)["add"])
    assert spark_rows(spark, table) == []
    assert not any(table.glob("_deltalite_staging*"))


@pytest.mark.smoke
def test_delete_removes_whole_files_without_reading_them(spark, tmp_path):
    """The test empties the data files, so that a delete that reads one of them fails."""
    table = write_table(spark, tmp_path / "t", FEED, partition_by=("day",))
    for name in data_files(table):
        (table / name).write_bytes(b"")
    result = delete_rows(spark, table, "day = 'a' AND (id > 0 OR TRUE)")
    assert result.metrics["numRemovedFiles"] == 1 and result.metrics["numDeletedRows"] == 3
    assert not actions_of(table, 1)["add"] and "cdc" not in actions_of(table, 1)
    assert delete_rows(spark, table, "true", confirm_all_rows=True).metrics["numDeletedRows"] == 4
    assert actions_of(table, 2)["commitInfo"]["operationParameters"] == {"predicate": '["true"]'}
    write_rows(spark, table, values("id, x, day", "9, 9, 'z'"))
    delete_rows(spark, table, confirm_all_rows=True)
    assert actions_of(table, 4)["commitInfo"]["operationParameters"] == {"predicate": "[]"}
    assert rows(table) == delta_rs_rows(table) == []
    assert not delete_rows(spark, table, confirm_all_rows=True).committed
    assert not delete_rows(spark, table, "id = 9").committed


ALWAYS_TRUE = [
    "day IS NULL OR day IS NOT NULL",
    "true",
    "1 = 1",
    "NOT (1 = 2)",
    "id > 0 OR TRUE",
    "'2026-01-02' >= '2026-01-01'",
    "coalesce(NULL, true)",
]


def test_a_delete_of_every_row_requires_confirm_all_rows(spark, tmp_path):
    table = write_table(spark, tmp_path / "t", partition_by=("day",))
    content_before = folder_content(table)
    for condition in ALWAYS_TRUE:
        with pytest.raises(InvalidRequestError, match=r"is true for every row.*confirm_all_rows=True"):
            delete_rows(spark, table, condition)
    with pytest.raises(InvalidRequestError, match=r"delete every row of .*confirm_all_rows=True"):
        delete_rows(spark, table)
    assert folder_content(table) == content_before
    for condition in ("false", "1 = 2", "id > 1000", "day <> 'z' AND id < 0"):
        assert not delete_rows(spark, table, condition).committed
    assert delete_rows(spark, table, "1 = 1", confirm_all_rows=True).metrics["numDeletedRows"] == len(INITIAL_ROWS)
    assert delete_rows(spark, table, "1 = 1", confirm_all_rows=True, run="r").committed
    assert delete_rows(spark, table, "1 = 1", run="r").skipped, "a run that has committed needs no confirmation"


INVALID_CONDITIONS = {
    "x IN (SELECT 1)": "InSubquery",
    "x > (SELECT 1)": "ScalarSubquery",
    "EXISTS (SELECT 1)": "Exists",
    "rand() > 0.5": "not deterministic",
    "now() > TIMESTAMP'2020-01-01'": "now",
    "sum(x) > 1": "exactly one value",
    "row_number() OVER (ORDER BY id) > 1": "exactly one value",
    "id": "int, not boolean",
    "nope = 1": "nope",
    "to_json(struct(*)) LIKE '%deltalite%'": "stands for all columns",
    "to_json(struct(target.* EXCEPT (id))) LIKE '%deltalite%'": "stands for all columns",
    "_metadata.row_index = 0": "_metadata",
    "__deltalite_file IS NOT NULL": "__deltalite_file",
    "id = 1; DROP TABLE t": "Syntax error",
    "10 / x > 1": "Division by zero",
    "to_date(day) = DATE'{{ ds }}'": "condition",
}
"""The text that the error for each condition contains."""


@pytest.mark.parametrize("condition", INVALID_CONDITIONS)
def test_an_invalid_condition_is_rejected_and_leaves_the_table_unchanged(spark, unchanged_table, condition):
    content_before = folder_content(unchanged_table)
    with pytest.raises(InvalidRequestError, match=INVALID_CONDITIONS[condition]) as error_info:
        delete_rows(spark, unchanged_table, condition)
    assert "condition" in str(error_info.value)
    assert folder_content(unchanged_table) == content_before


@pytest.fixture(scope="module")
def unchanged_table(spark, tmp_path_factory):
    return write_table(spark, tmp_path_factory.mktemp("unchanged") / "t", VECTORS)


def test_a_star_over_all_columns_is_rejected_and_a_star_over_a_struct_is_accepted(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT id, struct(id AS a) AS s FROM range(3)")
    with pytest.raises(InvalidRequestError, match=r"replace_where uses \* for all columns"):
        write_rows(spark, table, "SELECT 1L AS id, struct(1L AS a) AS s", mode="overwrite",
            replace_where="to_json(struct(*)) LIKE '%deltalite%'")  # fmt: skip
    delete_rows(spark, table, "to_json(struct(s.*)) = '{\"a\":2}'")
    assert [row[0] for row in rows(table)] == [0, 1]


FOREIGN_SCHEMA = [("id", "long"), ("big", "decimal(38,0)"), ("day", "string")]
NINES = "9" * 37 + "8"


@pytest.fixture
def foreign_table(tmp_path):
    """A table with the parts that other engines write: vectors, tags, missing statistics, a file outside the table."""
    table, elsewhere = tmp_path / "t", tmp_path / "other place"
    schema = pa.schema([("id", pa.int64()), ("big", pa.decimal128(38, 0))])

    def file(name, ids, folder=table):
        column = [Decimal(NINES)] * len(ids)
        return write_data_file(folder, name, pa.table({"id": ids, "big": column}, schema))

    stats_template = (
        '{"numRecords": 4, "minValues": {"id": 0, "big": %s}, "maxValues": {"big": %s, "id": 3}, "extra": [1, 2]}'
    )
    file_fields = [
        file("1.parquet", [0, 1, 2, 3])
        | {"stats": stats_template % (NINES, NINES), "deletionVector": inline_vector([0])},
        file("2.parquet", [10, 11, 12]) | {"tags": {"INSERTION_TIME": "5", "own": "é"}},
        file("a b%2F.parquet", [20, 21, 22])
        | {"stats": '{"nullCount": {"id": 0}}', "deletionVector": inline_vector([2])},
        file("4.parquet", [30, 31], elsewhere),
    ]
    file_fields[3]["path"] = (elsewhere / "4.parquet").as_uri()
    adds = [fields | {"partitionValues": {"day": day}} for fields, day in zip(file_fields, "aabb", strict=True)]
    configuration = VECTORS | {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"}
    features = ("deletionVectors", "v2Checkpoint")
    write_foreign_table(
        table, schema_json(*FOREIGN_SCHEMA), adds, ("day",), features=features, configuration=configuration
    )
    return table


@pytest.mark.sample("native")
def test_delete_keeps_the_statistics_and_tags_of_files_of_other_engines(spark, foreign_table, relation_kind):
    result = delete_rows(spark, foreign_table, "id IN (1, 11, 20, 30)")
    assert ids(foreign_table) == [2, 3, 10, 12, 21, 31]
    adds_by_name = {add["path"].rpartition("/")[2]: add for add in actions_of(foreign_table, 1)["add"]}
    assert adds_by_name["1.parquet"]["stats"].count(NINES) == 2
    assert '"extra":[1, 2]' in adds_by_name["1.parquet"]["stats"]
    assert json.loads(adds_by_name["1.parquet"]["stats"])["numRecords"] == 4
    assert adds_by_name["2.parquet"]["tags"] == {"INSERTION_TIME": "5", "own": "é"}
    assert json.loads(adds_by_name["2.parquet"]["stats"]) == {"numRecords": 3, "tightBounds": False}
    assert json.loads(adds_by_name["a%20b%252F.parquet"]["stats"])["numRecords"] == 3
    assert adds_by_name["4.parquet"]["path"].startswith("file:///")
    assert {name: add["deletionVector"]["cardinality"] for name, add in adds_by_name.items()} == {
        "1.parquet": 2, "2.parquet": 1, "a%20b%252F.parquet": 2, "4.parquet": 1,
    }  # fmt: skip
    removed_vectors = {
        remove["path"]: remove.get("deletionVector") for remove in actions_of(foreign_table, 1)["remove"]
    }
    assert removed_vectors["1.parquet"] == inline_vector([0]) and len(removed_vectors) == 4
    assert result.metrics["numRemovedFiles"] == 0 and result.metrics["numDeletedRows"] == 4
    result = delete_rows(spark, foreign_table, "id IN (2, 3, 10, 12, 21)")
    assert not actions_of(foreign_table, 2)["add"] and result.metrics["numRemovedFiles"] == 3, (
        "a file without remaining rows is removed and not added again"
    )
    assert ids(foreign_table) == ids_by_spark(spark, foreign_table) == [31]
    delete_rows(spark, foreign_table, "day = 'b'")
    assert ids(foreign_table) == [] and any((foreign_table / "_delta_log").glob("*.checkpoint*"))


def ids_by_spark(spark, table):
    return sorted(row[0] for row in spark_rows(spark, table))


def test_delete_without_deletion_vectors_rewrites_files_of_other_engines(spark, foreign_table):
    log = foreign_table / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"delta.enableDeletionVectors": "true"', '"mine": "x"'))
    result = delete_rows(spark, foreign_table, "id IN (1, 11, 20, 21)")
    assert not any("deletionVector" in add for add in actions_of(foreign_table, 1)["add"])
    assert ids(foreign_table) == [2, 3, 10, 12, 30, 31] == ids_by_spark(spark, foreign_table)
    assert result.metrics["numRemovedFiles"] == 3 and result.metrics["numCopiedRows"] == 4
    # To count the rows of a file without `numRecords`, the command would have to read it. It omits the metric instead.
    assert "numDeletedRows" not in delete_rows(spark, foreign_table, "day = 'b'").metrics


def test_the_error_of_a_delete_names_a_missing_data_file(spark, foreign_table):
    (foreign_table / "1.parquet").unlink()
    content_before = folder_content(foreign_table)
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet"):
        delete_rows(spark, foreign_table, "id = 1")
    assert folder_content(foreign_table) == content_before
    assert delete_rows(spark, foreign_table, "id = 11").committed, (
        "the statistics of the missing file exclude the condition"
    )


def test_a_run_is_recorded_even_if_no_row_matches(spark, tmp_path):
    table = write_table(spark, tmp_path / "t", VECTORS)
    first_result = delete_rows(spark, table, "id = 99", run="r")
    assert first_result.committed and not first_result.skipped and first_result.version == 1
    lines = (table / commit_name(1)).read_text().splitlines()
    assert [set(json.loads(line)) for line in lines] == [{"commitInfo"}, {"txn"}]
    write_rows(spark, table, values("id, x, day", "99, 9, 'z'"))
    second_result = delete_rows(spark, table, "id = 99", run="r")
    assert second_result.skipped and second_result.version == 1 and (99, 9, "z") in rows(table)
    result_after_clear = delete_rows(spark, table, "id = 99", run="r", generation=1, on_rerun="write")
    assert result_after_clear.committed and result_after_clear.version == 3 and rows(table) == sorted_rows(INITIAL_ROWS)
    assert delete_rows(spark, table, "id = 1", run="r", generation=1, on_rerun="write").skipped
    with pytest.raises(InvalidRequestError, match="on_rerun='replace'"):
        delete_rows(spark, table, "id = 1", run="r", generation=2, on_rerun="replace")
    assert not delete_rows(spark, table, "id = 99").committed and DeltaTable(str(table)).version == 3


def test_a_delete_from_an_append_only_or_missing_table_is_rejected(spark, tmp_path):
    table = write_table(spark, tmp_path / "t", {"delta.appendOnly": "true"}, partition_by=("day",))
    content_before = folder_content(table)
    for condition in (None, "day = 'a'", "id = 1", "id = 99", "day = 'none'", "false"):
        with pytest.raises(AppendOnlyError, match="append-only"):
            delete_rows(spark, table, condition, confirm_all_rows=True)
    assert folder_content(table) == content_before
    with pytest.raises(TableNotFoundError):
        delete_rows(spark, tmp_path / "nowhere", "id = 1")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["plain", "vectors"])
@pytest.mark.parametrize("change", ["delete", "update"])
def test_a_file_with_more_rows_than_its_statistics_say_keeps_the_rows_that_do_not_match(spark, tmp_path, kind, change):
    table = tmp_path / "t"
    table.mkdir()
    added_file = {
        **write_data_file(table, "1.parquet", id=pa.array([1, 2, 3], pa.int64())),
        "stats": '{"numRecords":2}',
    }
    features = ("deletionVectors",) if kind == "vectors" else ()
    write_foreign_table(table, schema_json(("id", "long")), [added_file], features=features, configuration=KINDS[kind])
    if change == "delete":
        delete_rows(spark, table, "id < 3")
        assert rows(table) == [(3,)]
    else:
        update_rows(spark, table, {"id": "-id"}, "id < 3")
        assert rows(table) == [(-1,), (-2,), (3,)]


@pytest.mark.parametrize("kind", ["plain", "vectors"])
@pytest.mark.parametrize("stats", ['{"numRecords":10}', None])
def test_a_delete_is_rejected_if_the_vector_of_a_file_has_positions_that_the_file_lacks(spark, tmp_path, kind, stats):
    table = tmp_path / "t"
    added_file = write_numbered_file(table, "1.parquet", 0, 10) | {"deletionVector": inline_vector(range(100, 105))}
    configuration = KINDS[kind]
    adds = [added_file | ({} if stats is None else {"stats": stats})]
    write_foreign_table(
        table, schema_json(("id", "long")), adds, features=("deletionVectors",), configuration=configuration
    )
    before = folder_content(table)
    with pytest.raises(CorruptDataFileError, match=r"selects the row at index 104 of the data file '1.parquet'"):
        delete_rows(spark, table, "id < 5")
    assert folder_content(table) == before


SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.parquet.enableVectorizedReader": "false",
}


@pytest.mark.sample("vectors")
@pytest.mark.parametrize("kind", ["plain", "vectors"])
def test_session_settings_do_not_change_which_rows_a_delete_removes(spark, tmp_path, kind):
    """The partition values are timestamps, and the session has another time zone.

    Some column names contain dots, or have a meaning in SQL.
    """
    table, session = tmp_path / "t", spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    time_sql = "TIMESTAMP'2026-{0} 03:00:00Z'"
    query = " UNION ALL ".join(
        f"SELECT {n} AS `a.b`, {n} AS `target`, {n} AS source, {n} AS __deltalite_file, struct({n} AS `x.y`) AS `s t`, "
        f"{time_sql.format(day)} AS at"
        for n, day in enumerate(["01-01", "01-02", "07-01"])
    )
    write_rows(
        spark, table, query, partition_by=("at",), properties={**KINDS[kind], "delta.columnMapping.mode": "name"}
    )
    delete_rows(session, table, "at = TIMESTAMP'2025-12-31 22:00:00'")
    assert [row[0] for row in rows(table)] == [1, 2]
    delete_rows(session, table, "target.`a.b` = 1 AND `s t`.`x.y` = 1 AND source = 1 AND __deltalite_file = `target`")
    assert [row[0] for row in rows(table)] == [2] == ids_by_spark(spark, table)
    delete_rows(session, table, "1 / (`a.b` - 2) IS NULL AND at >= TIMESTAMP'2026-06-30 23:00:00'")
    assert rows(table) == []
