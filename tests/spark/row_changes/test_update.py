"""UPDATE assigns values to the rows for which the condition is true, and changes nothing else."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql import Row

from deltalite import DeltaTable
from deltalite.errors import (
    AppendOnlyError,
    ConstraintViolationError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceError,
)
from tests.support.column_rules import field, write_empty_table
from tests.support.properties import FEED, VECTORS
from tests.support.selection import sampled
from tests.support.tables import (
    delete_rows,
    delta_rs_rows,
    folder_content,
    rows,
    spark_rows,
    update_rows,
    values,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

NAME_MAPPING, ID_MAPPING = {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"}
KINDS = {
    "plain": {},
    "vectors": VECTORS,
    "feed": FEED,
    "vectors and feed": {**VECTORS, **FEED},
    "name mapping, vectors and feed": {**VECTORS, **FEED, **NAME_MAPPING},
    "id mapping, feed": {**FEED, **ID_MAPPING},
}
# This pair covers a feed, vectors, mapped columns and partitions. The campaign runs every pair.
SAMPLE = {("name mapping, vectors and feed", ("day",))}
INITIAL_ROWS_QUERY = """SELECT * FROM VALUES
    (1, 10, 'a', named_struct('p', 1, 'q', named_struct('r', 'u')), 1.50BD),
    (2, NULL, 'a', NULL, 2.25BD),
    (3, 0, 'b', named_struct('p', 3, 'q', NULL), NULL),
    (4, 7, NULL, named_struct('p', NULL, 'q', named_struct('r', NULL)), 0BD)
    AS rows(id, x, day, s, d)"""


def with_dictionaries(value):
    """A value, with dictionaries in place of Spark rows."""
    if isinstance(value, Row):
        value = value.asDict()
    return {name: with_dictionaries(member) for name, member in value.items()} if isinstance(value, dict) else value


def rows_by_id(table_rows):
    return {row[0]: tuple(map(with_dictionaries, row[1:])) for row in table_rows}


def struct(p, r=None, *, q=True):
    """A value of the column `s`. Its member `q` is null if `q` is false."""
    return {"p": p, "q": {"r": r} if q else None}


INITIAL_ROWS = {
    1: (10, "a", struct(1, "u"), Decimal("1.50")),
    2: (None, "a", None, Decimal("2.25")),
    3: (0, "b", struct(3, q=False), None),
    4: (7, None, struct(None), Decimal("0.00")),
}
STEPS = [
    (
        {"x": "id * 100", "d": "d + 0.01"},
        "x > 5 OR x < 0",
        {1: (100, "a", INITIAL_ROWS[1][2], Decimal("1.51")), 4: (400, None, INITIAL_ROWS[4][2], Decimal("0.01"))},
    ),
    (
        {"x": "length(day)", "Day": "CAST(x AS STRING)"},
        "target.id = 1",
        {1: (1, "100", INITIAL_ROWS[1][2], Decimal("1.51"))},
    ),
    (
        {"s.p": "coalesce(s.p, 0) + 1", "S.q.r": "'new'"},
        "id IN (2, 3)",
        {2: (None, "a", struct(1, "new"), Decimal("2.25")), 3: (0, "b", struct(4, "new"), None)},
    ),
    (
        {"s": "named_struct('q', s.q, 'p', 2BD)", "day": "NULL"},
        "id = 1",
        {1: (1, None, struct(2, "u"), Decimal("1.51"))},
    ),
    ({"x": "10 / x"}, "x <> 0 AND day IS NULL AND id = 1", {1: (10, None, struct(2, "u"), Decimal("1.51"))}),
    (
        {"x": "-1"},
        "day <=> NULL",
        {1: (-1, None, struct(2, "u"), Decimal("1.51")), 4: (-1, None, INITIAL_ROWS[4][2], Decimal("0.01"))},
    ),
    ({"x": "5"}, "x = NULL", {}),
    ({"target.s": "NULL", "day": "DATE'2026-01-02'"}, "true", None),
]
"""Updates that run one after the other: the values, the condition and the changed rows. None stands for all rows."""
SAMPLED_STEPS = 4
"""The number of steps in `make test`. They assign columns, a partition column, members of a struct, and a struct."""


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [
        pytest.param(kind, columns, marks=[] if (kind, columns) in SAMPLE else pytest.mark.campaign)
        for kind in KINDS
        for columns in ((), ("day",))
    ],
    ids=str,
)
def test_update_assigns_the_values_to_exactly_the_rows_that_match(spark, tmp_path, pytestconfig, kind, partition_by):
    table, expected_rows = tmp_path / "t", dict(INITIAL_ROWS)
    write_rows(spark, table, INITIAL_ROWS_QUERY, properties=KINDS[kind], partition_by=partition_by)
    assert rows_by_id(rows(table)) == expected_rows
    is_campaign = pytestconfig.getoption("--campaign")
    steps = STEPS if is_campaign else STEPS[:SAMPLED_STEPS]
    for step in steps:
        assignments, condition, new_rows = step
        changed_rows = rows_after_last_step(expected_rows) if new_rows is None else new_rows
        result = update_rows(spark, table, assignments, condition)
        previous_rows, expected_rows = expected_rows, expected_rows | changed_rows
        assert result.committed is bool(changed_rows)
        assert rows_by_id(rows(table)) == expected_rows, condition
        if is_campaign or step is steps[-1]:
            assert rows_by_id(spark_rows(spark, table)) == expected_rows, condition
        if "delta.columnMapping.mode" not in KINDS[kind]:
            assert rows_by_id(delta_rs_rows(table)) == expected_rows, condition
        if changed_rows:
            assert result.metrics["numUpdatedRows"] == len(changed_rows)
            assert "vectors" not in kind or result.metrics["numCopiedRows"] == 0
        if changed_rows and "feed" in kind:
            sides = {"update_preimage": previous_rows, "update_postimage": expected_rows}
            assert feed(table, result.version) == {
                side: {n: rows_of_side[n] for n in changed_rows} for side, rows_of_side in sides.items()
            }, condition
    assert not any(table.glob("_deltalite_staging*"))


def rows_after_last_step(table_rows):
    """The rows after the update of all rows, which is the last step."""
    return {number: (x, "2026-01-02", None, d) for number, (x, _, _, d) in table_rows.items()}


def feed(table, version):
    """The changes of a version: for each change type, the changed rows by id."""
    rows_by_type = {}
    for batch in DeltaTable(str(table)).changes(from_version=version, to_version=version):
        for row in batch.to_pylist():
            rows_of_type = rows_by_type.setdefault(row["_change_type"], {})
            assert row["id"] not in rows_of_type
            rows_of_type[row["id"]] = (row["x"], row["day"], row["s"], row["d"])
    return rows_by_type


INVALID_UPDATES = {
    "more digits than the column allows": ({"d": "1.005"}, "id = 1", SourceError, "'d' is decimal.* value 1.005"),
    "a fraction": ({"x": "x / 4"}, "id = 1", SourceError, "'x' is int, and the value 2.5"),
    "too large": ({"x": "3000000000"}, None, SourceError, "'x' is int, and the value 3000000000"),
    "a fraction in a struct field": ({"s.p": "2.5"}, "id = 1", SourceError, r"'s\.p' is int, and the value 2.5"),
    "a random fraction": ({"x": "rand() + 0.1"}, None, SourceError, "'x' is int"),
    "a division by zero": ({"x": "10 / x"}, "x = 0", SourceError, "Division by zero"),
    "raise_error": ({"x": "raise_error('boo')"}, "id = 1", SourceError, "boo"),
    "text that is not an integer": ({"x": "'5.5'"}, None, SourceError, r"'x' is int, and the value 5.5 \(string\)"),
    "a date for a number": ({"x": "DATE'2026-01-01'"}, None, SchemaMismatchError, "'x' is int, and its value is date"),
    "DEFAULT for a struct field": ({"s.p": "DEFAULT"}, None, InvalidRequestError, r"DEFAULT to s\.p, but only a whole"),
    "DEFAULT in an expression": ({"x": "DEFAULT + 1"}, None, InvalidRequestError, "value of x .*DEFAULT"),
    "a struct that lacks a field": ({"s": "named_struct('p', 1)"}, None, SchemaMismatchError, "members p, q"),
    "an unknown column": ({"nope": "1"}, None, InvalidRequestError, "'nope', which is not a column"),
    "an unknown struct field": ({"s.z": "1"}, None, InvalidRequestError, r"'s\.z', which is not a column"),
    "an unclosed backtick": ({"`x": "1"}, None, InvalidRequestError, "set gives a value to '`x'"),
    "a column twice": ({"target.x": "1", "X": "2"}, None, InvalidRequestError, "the column X twice"),
    "a struct and its field": (
        {"s": "NULL", "s.p": "1"},
        None,
        InvalidRequestError,
        "one contains the other",
    ),
    "a subquery": ({"x": "(SELECT 1)"}, None, InvalidRequestError, "value of x .*ScalarSubquery"),
    "an aggregate": ({"x": "max(x)"}, None, InvalidRequestError, "exactly one value"),
    "a window": ({"x": "sum(x) OVER ()"}, None, InvalidRequestError, "exactly one value"),
    "a generator": ({"x": "explode(array(1))"}, None, InvalidRequestError, "exactly one value"),
    "a star over all columns": ({"day": "to_json(struct(*))"}, None, InvalidRequestError, "stands for all columns"),
    "a type that Delta does not store": ({"x": "INTERVAL 1 DAY"}, None, InvalidRequestError, "interval day"),
    "invalid SQL": ({"x": "x +"}, None, InvalidRequestError, "value of x"),
    "a condition that is not boolean": ({"x": "1"}, "id", InvalidRequestError, "condition .*int, not boolean"),
}


@pytest.mark.parametrize("case", INVALID_UPDATES)
@pytest.mark.parametrize("kind", sampled(["plain", "vectors and feed"], {"vectors and feed"}))
def test_an_invalid_assignment_is_rejected_and_leaves_the_table_unchanged(spark, tables, kind, case):
    table, (assignments, condition, error, message) = tables[kind], INVALID_UPDATES[case]
    content_before = folder_content(table)
    with pytest.raises(error, match=message):
        update_rows(spark, table, assignments, condition)
    assert folder_content(table) == content_before


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    tables_by_kind = {kind: tmp_path_factory.mktemp("unchanged") / "t" for kind in ("plain", "vectors and feed")}
    for kind, table in tables_by_kind.items():
        write_rows(spark, table, INITIAL_ROWS_QUERY, properties=KINDS[kind])
    return tables_by_kind


@pytest.mark.parametrize("kind", sampled(list(KINDS), {"name mapping, vectors and feed"}))
def test_values_are_computed_once_for_the_table_and_its_feed(spark, tmp_path, kind):
    spark.udf.register("deltalite_twice", lambda x: None if x is None else x * 2, "int")
    table = tmp_path / "t"
    query = "SELECT CAST(id AS INT) AS id, 0 AS x, '' AS day, struct(1 AS p) AS s, 0BD AS d FROM range(50)"
    write_rows(spark, table, query, properties=KINDS[kind])
    result = update_rows(
        spark, table, {"x": "CAST(rand() * 1000000 AS INT)", "day": "uuid()"}, "deltalite_twice(id) < 80"
    )
    assert result.metrics["numUpdatedRows"] == 40
    table_rows = rows_by_id(rows(table))
    assert sum(row[1] == "" for row in table_rows.values()) == 10 and len({row[1] for row in table_rows.values()}) == 41
    if "feed" in kind:
        assert feed(table, 1)["update_postimage"] == {n: row for n, row in table_rows.items() if row[1]}


def table_with_column_rules(folder, *, vectors):
    """Create a table with an identity column, a generated column, a default, a NOT NULL column and a constraint."""
    configuration = {"delta.constraints.positive": "x > 0", **(VECTORS if vectors else {})}
    features = ["checkConstraints", "generatedColumns", "allowColumnDefaults", "identityColumns"]
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False,
                "delta.identity.highWaterMark": 2}  # fmt: skip
    table = write_empty_table(
        folder,
        {"name": "n", "type": "long", "nullable": True, "metadata": identity},
        field("x", "integer"),
        field("at", "timestamp"),
        field("day", "date", delta__generationExpression="CAST(at AS DATE)"),
        field("name", "string", nullable=False, CURRENT_DEFAULT="'none'"),
        features=features,
        partition_columns=["day"],
        configuration=configuration,
    )
    log = table / "_delta_log" / f"{0:020}.json"
    if vectors:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        lines[0]["protocol"] |= {"minReaderVersion": 3, "readerFeatures": ["deletionVectors"]}
        lines[0]["protocol"]["writerFeatures"].append("deletionVectors")
        log.write_text("\n".join(map(json.dumps, lines)))
    return table


@pytest.mark.campaign
@pytest.mark.parametrize("vectors", [False, True], ids=["plain", "vectors"])
def test_column_rules_apply_to_updated_rows(spark, tmp_path, vectors):
    table = table_with_column_rules(tmp_path / "t", vectors=vectors)
    write_rows(spark, table, "SELECT id AS x, TIMESTAMP'2026-01-01 05:00:00' AS at FROM VALUES (1), (2) AS r(id)")
    initial_rows = rows(table)
    assert [row[4] for row in initial_rows] == ["none", "none"] and {row[3] for row in initial_rows} == {
        dt.date(2026, 1, 1)
    }
    content_before = folder_content(table)
    for assignments, error, message in [
        ({"x": "x - 1"}, ConstraintViolationError, r'positive.*"x":0'),
        ({"name": "NULL"}, ConstraintViolationError, "'name' is NOT NULL"),
        ({"day": "DATE'2026-01-02'"}, ConstraintViolationError, "'day' is generated as .CAST.at AS DATE"),
        ({"n": "7"}, InvalidRequestError, "identity column 'n'"),
    ]:
        with pytest.raises(error, match=message):
            update_rows(spark, table, assignments, "x = 1")
        assert folder_content(table) == content_before
    update_rows(spark, table, {"at": "at + INTERVAL 1 DAY"}, "x = 1")
    columns_by_x = {row[1]: (row[0], row[3], row[4]) for row in rows(table)}
    identity_values = {row[1]: row[0] for row in initial_rows}
    assert columns_by_x == {
        1: (identity_values[1], dt.date(2026, 1, 2), "none"),
        2: (identity_values[2], dt.date(2026, 1, 1), "none"),
    }
    update_rows(spark, table, {"day": "DATE'2026-01-01'", "at": "TIMESTAMP'2026-01-01 00:00:00'"}, "x = 1")
    assert {row[3] for row in rows(table)} == {dt.date(2026, 1, 1)}
    write_rows(spark, table, "SELECT 3 AS x, TIMESTAMP'2026-01-03 05:00:00' AS at")
    assert len({row[0] for row in rows(table)}) == 3, "the identity values stay unique"


def test_update_checks_a_constraint_only_for_the_rows_that_it_updates(spark, tmp_path):
    table = table_with_column_rules(tmp_path / "t", vectors=False)
    write_rows(spark, table, "SELECT x, TIMESTAMP'2026-01-01' AS at, 'a' AS name FROM VALUES (5), (6) AS r(x)")
    for file in (table / "_delta_log").iterdir():
        if file.suffix == ".json":
            file.write_text(file.read_text().replace("x > 0", "10 / (x - 5) > 0"))
        else:
            file.unlink()  # The checksum file contains the old constraint.
    update_rows(spark, table, {"x": "x + 1"}, "x = 6")
    assert sorted(row[1] for row in rows(table)) == [5, 7]
    with pytest.raises(ConstraintViolationError, match="positive"):
        update_rows(spark, table, {"x": "-x"}, "x = 7")


@pytest.mark.smoke
def test_a_run_is_recorded_even_if_no_row_matches(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1", "2, 2"))
    assert update_rows(spark, table, {"x": "0"}, "id = 9", run="r").version == 1
    write_rows(spark, table, values("id, x", "9, 9"))
    second_result = update_rows(spark, table, {"x": "0"}, "id = 9", run="r")
    assert second_result.skipped and (9, 9) in rows(table)
    result_after_clear = update_rows(
        spark, table, {"x": "x + 1"}, run="r", generation=1, on_rerun="write", user_metadata="note"
    )
    assert result_after_clear.metrics["numUpdatedRows"] == 3 and rows(table) == [(1, 2), (2, 3), (9, 10)]
    assert json.loads(DeltaTable(str(table)).history()[0]["userMetadata"])["user_metadata"] == "note"
    assert update_rows(spark, table, {"x": "x + 1"}, run="r", generation=1, on_rerun="write").skipped
    assert not update_rows(spark, table, {"x": "0"}, "false").committed
    history = DeltaTable(str(table)).history()
    assert history[0]["operation"] == "UPDATE" and history[0]["operationParameters"] == {"predicate": "[]"}


def test_an_update_of_an_append_only_table_is_rejected(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1"), properties={"delta.appendOnly": "true"})
    content_before = folder_content(table)
    for condition in (None, "id = 1", "id = 99", "false"):
        with pytest.raises(AppendOnlyError, match="append-only"):
            update_rows(spark, table, {"x": "0"}, condition)
    assert folder_content(table) == content_before


@pytest.mark.campaign
def test_overlapping_updates_and_deletes_of_one_file_are_each_applied_once(spark, tmp_path, relation_kind):
    """Updates and deletes run one after the other, and each soft-deletes more rows of the file."""
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT /*+ COALESCE(1) */ id, 0 AS x FROM range(100000)", properties=VECTORS)
    expected = dict.fromkeys(range(100_000), 0)
    for low, high in [(0, 10), (32_760, 32_775), (5, 40_000), (99_999, 100_000), (0, 3)]:
        update_rows(spark, table, {"x": "x + 1"}, f"id >= {low} AND id < {high}")
        expected |= {n: expected[n] + 1 for n in range(low, high) if n in expected}
        delete_rows(spark, table, f"id = {high - 1}")
        del expected[high - 1]
    assert dict(rows(table)) == expected
    assert {n: x[0] for n, x in rows_by_id(delta_rs_rows(table)).items()} == expected
