"""Every written row satisfies the table's rules, and the table fills columns that the rows lack."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltalite.errors import (
    AppendOnlyError,
    ConstraintViolationError,
    InvalidRequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tests.support.column_rules import assert_write_rejected, empty_table, field, invariant
from tests.support.tables import commit, rows, values, write_rows

pytestmark = pytest.mark.spark


def test_rows_must_satisfy_invariants_and_constraints(spark, tmp_path):
    inner = {"type": "struct", "fields": [field("x", "integer", delta__invariants=invariant("s.x > 0"))]}
    table = empty_table(
        tmp_path / "t",
        field("id", "integer", delta__invariants=invariant("id < 100")),
        field("s", inner),
        field("name", "string", nullable=False),
        features=["checkConstraints"],
        configuration={"delta.constraints.short": "length(name) < 5 OR id = 50"},
    )
    good = "SELECT 1 AS id, named_struct('x', 1) AS s, 'a' AS name"
    write_rows(spark, table, good)
    more = lambda query: f"{good} UNION ALL {query}"
    bad = [
        ("SELECT 100, named_struct('x', 1), 'a'", r"invariant of the column 'id' is \(id < 100\).*\"id\":100"),
        ("SELECT NULL, named_struct('x', 1), 'a'", r"invariant of the column 'id'.*\"id\":null"),
        ("SELECT 2, named_struct('x', 0), 'a'", r"invariant of the column 'x' is \(s.x > 0\)"),
        ("SELECT 2, NULL, 'a'", r"invariant of the column 'x'"),
        ("SELECT 3, named_struct('x', 1), 'abcdef'", r"CHECK constraint 'short' is \(length.*abcdef"),
        ("SELECT 3, named_struct('x', 1), NULL", "'name' is NOT NULL"),
    ]
    for query, words in bad:
        for options in (
            {},
            {"mode": "overwrite"},
            {"mode": "overwrite", "replace_where": "true", "confirm_all_rows": True},
        ):
            assert_write_rejected(spark, table, ConstraintViolationError, words, more(query), **options)
    write_rows(spark, table, "SELECT 50 AS id, named_struct('x', 1) AS s, 'abcdef' AS name")
    assert [r[0] for r in rows(table)] == [1, 50]
    assert_write_rejected(spark, table, UnsupportedFeatureError, "short.*cannot be computed", "SELECT 1 AS other",
            mode="overwrite", overwrite_schema=True)  # fmt: skip
    write_rows(spark, table, "SELECT 'b' AS name, 7 AS id", mode="overwrite", overwrite_schema=True)
    assert rows(table) == [("b", 7)]


def test_a_first_write_can_set_a_constraint(spark, tmp_path):
    table = tmp_path / "t"
    positive = {"delta.constraints.positive": "id > 0"}
    for text in ("id >", "nope > 0", "id", "rand() > 0", "EXISTS (SELECT 1)", "explode(array(true))",
                 "reflect('java.lang.System', 'getenv') IS NULL", "max(id) > 0"):  # fmt: skip
        properties = {"delta.constraints.c": text}
        assert_write_rejected(
            spark, table, InvalidRequestError, r"CHECK constraint 'c'", values("id", "1"), properties=properties
        )
    assert_write_rejected(
        spark, table, ConstraintViolationError, "positive", values("id", "1", "0"), properties=positive
    )
    write_rows(spark, table, values("id", "1"), properties=positive)
    assert commit(table, 0)["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 3}
    assert_write_rejected(spark, table, ConstraintViolationError, r"'positive' is \(id > 0\).*\"id\":null",
            "SELECT CAST(NULL AS INT) AS id")  # fmt: skip
    negative = pa.table({"id": pa.array([-1], pa.int32())})
    with pytest.raises(Exception, match="1 rows failed validation check"):
        write_deltalake(str(table), negative, mode="append")
    write_deltalake(str(table), pa.table({"id": pa.array([2], pa.int32())}), mode="append")
    assert rows(table) == [(1,), (2,)]


MADE = (
    field("at", "timestamp"),
    field("day", "date", delta__generationExpression="CAST(at AS DATE)"),
    field("twice", "long", delta__generationExpression="id * 2"),
    field("id", "integer"),
    field("kind", "string", nullable=False, CURRENT_DEFAULT="'new'"),
    field("n", "long", CURRENT_DEFAULT="40 + 2"),
)


@pytest.fixture
def made(tmp_path):
    return empty_table(
        tmp_path / "t", *MADE, features=["generatedColumns", "allowColumnDefaults"], partition_columns=["day"]
    )


def test_missing_generated_and_default_columns_are_computed(spark, made):
    at = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    day = dt.date(2026, 1, 2)
    moment = "TIMESTAMP'2026-01-02 03:00:00Z' AS at"
    write_rows(spark, made, f"SELECT 1 AS id, {moment}")
    write_rows(spark, made, f"SELECT 2 AS ID, {moment}, DATE'2026-01-02' AS day, 4 AS twice, 'old' AS kind, NULL AS n")
    write_rows(
        spark, made, "SELECT CAST(NULL AS INT) AS id, CAST(NULL AS DATE) AS day, 'x' AS extra", merge_schema=True
    )
    assert rows(made) == sorted(
        [
            (at, day, 2, 1, "new", 42, None),
            (at, day, 4, 2, "old", None, None),
            (None, None, None, None, "new", 42, "x"),
        ],
        key=repr,
    )
    assert [a["partitionValues"] for a in commit(made, 1)["add"]] == [{"day": "2026-01-02"}]
    write_rows(spark, made, f"SELECT 3 AS id, {moment}", mode="overwrite", partition_overwrite="dynamic")
    write_rows(spark, made, f"SELECT 4 AS id, {moment}", mode="overwrite", replace_where="twice = 8 OR id IS NULL")
    assert sorted(r[3] for r in rows(made)) == [3, 4] and sorted(r[2] for r in rows(made)) == [6, 8]
    assert "delta.generationExpression" in commit(made, 3)["metaData"]["schemaString"]


def test_a_wrong_value_for_a_generated_column_is_shown(spark, made):
    wrong = [("3 AS twice", r"'twice' is generated as \(id \* 2\).*\"twice\":3"), ("NULL AS twice", "'twice'"),
             ("DATE'2026-01-02' AS day", "'day' is generated")]  # fmt: skip
    for column, words in wrong:
        assert_write_rejected(spark, made, ConstraintViolationError, words, f"SELECT 1 AS id, {column}")
    assert_write_rejected(
        spark, made, ConstraintViolationError, "'kind' is NOT NULL", "SELECT 1 AS id, CAST(NULL AS STRING) AS kind"
    )
    assert_write_rejected(spark, made, SchemaMismatchError, "'day'", "SELECT 1 AS id, 'text' AS day")


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"delta__generationExpression": "id +"}, "generation expression of the column 'c' is .id +."),
        ({"delta__generationExpression": "nope + 1"}, "generation expression of the column 'c'.*nope"),
        ({"delta__generationExpression": "rand()"}, "generation expression of the column 'c'.*not deterministic"),
        ({"delta__generationExpression": "(SELECT 1)"}, "generation expression of the column 'c'.*ScalarSubquery"),
        ({"delta__generationExpression": "other + 1"}, "it reads columns that are computed too: other"),
        ({"CURRENT_DEFAULT": "'a"}, "default of the column 'c'"),
        ({"CURRENT_DEFAULT": "id"}, "default of the column 'c'.*id"),
    ],
)
def test_an_expression_that_fails_is_reported_with_its_column(spark, tmp_path, about, words):
    other = field("other", "integer", delta__generationExpression="id")
    fields = field("id", "integer"), field("c", "integer", **about), other
    table = empty_table(tmp_path / "t", *fields, features=["generatedColumns", "allowColumnDefaults"])
    assert_write_rejected(spark, table, UnsupportedFeatureError, words, "SELECT 1 AS id")


def array_of(element, contains_null=True):
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(value, contains_null=True):
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": contains_null}


NO_A = "named_struct('a', CAST(NULL AS INT))"
MEMBER = {"type": "struct", "fields": [field("a", "integer", nullable=False)]}


@pytest.mark.parametrize(
    ("kind", "good", "bad", "path"),
    [
        (array_of(MEMBER), "array(named_struct('a', 1), NULL)", f"array({NO_A})", "c.element.a"),
        (map_of(MEMBER), "map('k', named_struct('a', 1), 'l', NULL)", f"map('k', {NO_A})", "c.value.a"),
        (array_of(array_of("integer", False)), "array(array(1), NULL)", "array(array(1, NULL))", "c.element.element"),
        (map_of(map_of("integer", False)), "map('k', map('l', 1))", "map('k', map('l', INT(NULL)))", "c.value.value"),
    ],
)  # fmt: skip
def test_not_null_holds_at_every_depth_of_arrays_and_maps(spark, tmp_path, kind, good, bad, path):
    table = empty_table(tmp_path / "t", field("c", kind))
    write_rows(spark, table, f"SELECT {good} AS c UNION ALL SELECT NULL")
    assert len(rows(table)) == 2
    assert_write_rejected(spark, table, ConstraintViolationError, f"'{path}' is NOT NULL", f"SELECT {bad} AS c")


def test_a_default_that_does_not_fit_its_column_is_rejected(spark, tmp_path):
    default = field("d", array_of("integer"), CURRENT_DEFAULT="7")
    table = empty_table(tmp_path / "d", field("id", "integer"), default, features=["allowColumnDefaults"])
    assert_write_rejected(spark, table, UnsupportedFeatureError, "column 'd' is \\(7\\)", "SELECT 1 AS id")


def test_the_append_only_property_before_the_write_decides(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id", "1"), properties={"delta.appendOnly": "true"})
    assert_write_rejected(
        spark, table, AppendOnlyError, "append-only", values("id", "2"), mode="overwrite", overwrite_schema=True,
        properties={"delta.appendOnly": "false"},
    )  # fmt: skip
    other = tmp_path / "o"
    write_rows(spark, other, values("id", "1"))
    write_rows(
        spark,
        other,
        values("id", "2"),
        mode="overwrite",
        overwrite_schema=True,
        properties={"delta.appendOnly": "true"},
    )
    assert rows(other) == [(2,)]
