"""A write accepts only rows that satisfy the rules of the table, and computes columns that the rows do not have."""

from __future__ import annotations

import datetime as dt
import shutil

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
from tests.support.column_rules import assert_write_rejected, field, invariant, write_empty_table
from tests.support.tables import actions_of, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


VALID_ROW = "SELECT 1 AS id, named_struct('x', 1) AS s, 'a' AS name"
INVALID_ROWS = [
    ("SELECT 100, named_struct('x', 1), 'a'", r"invariant of the column 'id' is \(id < 100\).*\"id\":100"),
    ("SELECT NULL, named_struct('x', 1), 'a'", r"invariant of the column 'id'.*\"id\":null"),
    ("SELECT 2, named_struct('x', 0), 'a'", r"invariant of the column 'x' is \(s.x > 0\)"),
    ("SELECT 2, NULL, 'a'", r"invariant of the column 'x'"),
    ("SELECT 3, named_struct('x', 1), 'abcdef'", r"CHECK constraint 'short' is \(length.*abcdef"),
    ("SELECT 3, named_struct('x', 1), NULL", "'name' is NOT NULL"),
]
"""Rows that break a rule of `constrained_template`, each with a text of the error."""
MODES = [{}, {"mode": "overwrite"}, {"mode": "overwrite", "replace_where": "true", "confirm_all_rows": True}]
CASES = [
    pytest.param(*INVALID_ROWS[row], MODES[mode], marks=[] if row % len(MODES) == mode else pytest.mark.campaign)
    for row in range(len(INVALID_ROWS))
    for mode in range(len(MODES))
]
"""Each row in each mode. `make test` writes each row in one mode, and two rows in each mode."""


@pytest.fixture(scope="module")
def constrained_template(spark, tmp_path_factory):
    """A table with a valid row, and with invariants, a constraint and a column that is NOT NULL."""
    struct_type = {"type": "struct", "fields": [field("x", "integer", delta__invariants=invariant("s.x > 0"))]}
    table = write_empty_table(
        tmp_path_factory.mktemp("template") / "t",
        field("id", "integer", delta__invariants=invariant("id < 100")),
        field("s", struct_type),
        field("name", "string", nullable=False),
        features=["checkConstraints"],
        configuration={"delta.constraints.short": "length(name) < 5 OR id = 50"},
    )
    write_rows(spark, table, VALID_ROW)
    return table


@pytest.mark.parametrize(("invalid_row", "problem", "options"), CASES)
def test_rows_must_satisfy_invariants_and_constraints(spark, constrained_template, invalid_row, problem, options):
    query = f"{VALID_ROW} UNION ALL {invalid_row}"
    assert_write_rejected(spark, constrained_template, ConstraintViolationError, problem, query, **options)


def test_a_new_schema_must_have_the_columns_of_a_constraint_and_drops_other_rules(
    spark, constrained_template, tmp_path
):
    table = shutil.copytree(constrained_template, tmp_path / "t")
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
    assert actions_of(table, 0)["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 3}
    assert_write_rejected(spark, table, ConstraintViolationError, r"'positive' is \(id > 0\).*\"id\":null",
            "SELECT CAST(NULL AS INT) AS id")  # fmt: skip
    negative = pa.table({"id": pa.array([-1], pa.int32())})
    with pytest.raises(Exception, match="1 rows failed validation check"):
        write_deltalake(str(table), negative, mode="append")
    write_deltalake(str(table), pa.table({"id": pa.array([2], pa.int32())}), mode="append")
    assert rows(table) == [(1,), (2,)]


FIELDS = (
    field("at", "timestamp"),
    field("day", "date", delta__generationExpression="CAST(at AS DATE)"),
    field("twice", "long", delta__generationExpression="id * 2"),
    field("id", "integer"),
    field("kind", "string", nullable=False, CURRENT_DEFAULT="'new'"),
    field("n", "long", CURRENT_DEFAULT="40 + 2"),
)


@pytest.fixture
def table(tmp_path):
    """An empty table with generated columns and defaults."""
    return write_empty_table(
        tmp_path / "t", *FIELDS, features=["generatedColumns", "allowColumnDefaults"], partition_columns=["day"]
    )


def test_missing_generated_and_default_columns_are_computed(spark, table):
    written_at = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)
    day = dt.date(2026, 1, 2)
    at_sql = "TIMESTAMP'2026-01-02 03:00:00Z' AS at"
    write_rows(spark, table, f"SELECT 1 AS id, {at_sql}")
    write_rows(spark, table, f"SELECT 2 AS ID, {at_sql}, DATE'2026-01-02' AS day, 4 AS twice, 'old' AS kind, NULL AS n")
    write_rows(
        spark, table, "SELECT CAST(NULL AS INT) AS id, CAST(NULL AS DATE) AS day, 'x' AS extra", merge_schema=True
    )
    assert rows(table) == sorted(
        [
            (written_at, day, 2, 1, "new", 42, None),
            (written_at, day, 4, 2, "old", None, None),
            (None, None, None, None, "new", 42, "x"),
        ],
        key=repr,
    )
    assert [add["partitionValues"] for add in actions_of(table, 1)["add"]] == [{"day": "2026-01-02"}]
    write_rows(spark, table, f"SELECT 3 AS id, {at_sql}", mode="overwrite", partition_overwrite="dynamic")
    write_rows(spark, table, f"SELECT 4 AS id, {at_sql}", mode="overwrite", replace_where="twice = 8 OR id IS NULL")
    assert sorted((row[3], row[2]) for row in rows(table)) == [(3, 6), (4, 8)]
    assert "delta.generationExpression" in actions_of(table, 3)["metaData"]["schemaString"]


def test_a_wrong_value_for_a_generated_column_is_rejected_and_shown(spark, table):
    wrong_columns = [
        ("3 AS twice", r"'twice' is generated as \(id \* 2\).*\"twice\":3"),
        ("NULL AS twice", "'twice'"),
        ("DATE'2026-01-02' AS day", "'day' is generated"),
    ]
    for column, problem in wrong_columns:
        assert_write_rejected(spark, table, ConstraintViolationError, problem, f"SELECT 1 AS id, {column}")
    assert_write_rejected(
        spark, table, ConstraintViolationError, "'kind' is NOT NULL", "SELECT 1 AS id, CAST(NULL AS STRING) AS kind"
    )
    assert_write_rejected(spark, table, SchemaMismatchError, "'day'", "SELECT 1 AS id, 'text' AS day")


@pytest.mark.parametrize(
    ("field_metadata", "problem"),
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
def test_an_expression_that_cannot_be_computed_is_reported_with_its_column(spark, tmp_path, field_metadata, problem):
    fields = (
        field("id", "integer"),
        field("c", "integer", **field_metadata),
        field("other", "integer", delta__generationExpression="id"),
    )
    table = write_empty_table(tmp_path / "t", *fields, features=["generatedColumns", "allowColumnDefaults"])
    assert_write_rejected(spark, table, UnsupportedFeatureError, problem, "SELECT 1 AS id")


def array_of(element, contains_null=True):
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(value, contains_null=True):
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": contains_null}


STRUCT_WITH_NULL_A = "named_struct('a', CAST(NULL AS INT))"
MEMBER = {"type": "struct", "fields": [field("a", "integer", nullable=False)]}


@pytest.mark.parametrize(
    ("data_type", "valid_value", "invalid_value", "path"),
    [
        (array_of(MEMBER), "array(named_struct('a', 1), NULL)", f"array({STRUCT_WITH_NULL_A})", "c.element.a"),
        (map_of(MEMBER), "map('k', named_struct('a', 1), 'l', NULL)", f"map('k', {STRUCT_WITH_NULL_A})", "c.value.a"),
        (array_of(array_of("integer", False)), "array(array(1), NULL)", "array(array(1, NULL))", "c.element.element"),
        (map_of(map_of("integer", False)), "map('k', map('l', 1))", "map('k', map('l', INT(NULL)))", "c.value.value"),
    ],
)  # fmt: skip
def test_not_null_holds_at_every_depth_of_arrays_and_maps(spark, tmp_path, data_type, valid_value, invalid_value, path):
    table = write_empty_table(tmp_path / "t", field("c", data_type))
    write_rows(spark, table, f"SELECT {valid_value} AS c UNION ALL SELECT NULL")
    assert len(rows(table)) == 2
    query = f"SELECT {invalid_value} AS c"
    assert_write_rejected(spark, table, ConstraintViolationError, f"'{path}' is NOT NULL", query)


def test_a_default_that_does_not_fit_its_column_is_rejected(spark, tmp_path):
    default = field("d", array_of("integer"), CURRENT_DEFAULT="7")
    table = write_empty_table(tmp_path / "d", field("id", "integer"), default, features=["allowColumnDefaults"])
    assert_write_rejected(spark, table, UnsupportedFeatureError, "column 'd' is \\(7\\)", "SELECT 1 AS id")


def test_an_overwrite_that_sets_the_append_only_property_obeys_its_old_value(spark, tmp_path):
    append_only_table = tmp_path / "append-only"
    new_schema = {"mode": "overwrite", "overwrite_schema": True}
    write_rows(spark, append_only_table, values("id", "1"), properties={"delta.appendOnly": "true"})
    assert_write_rejected(
        spark, append_only_table, AppendOnlyError, "append-only", values("id", "2"),
        properties={"delta.appendOnly": "false"}, **new_schema,
    )  # fmt: skip
    plain_table = tmp_path / "plain"
    write_rows(spark, plain_table, values("id", "1"))
    write_rows(spark, plain_table, values("id", "2"), properties={"delta.appendOnly": "true"}, **new_schema)
    assert rows(plain_table) == [(2,)]
