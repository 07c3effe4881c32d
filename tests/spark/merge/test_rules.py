"""MERGE enforces the types, constraints and generated columns of a table, and rejects invalid clauses."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from deltalite.errors import (
    AppendOnlyError,
    ConstraintViolationError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceError,
    SourceNotFoundError,
    TableNotFoundError,
)
from deltalite.requests import Source
from tests.support.column_rules import high_water_marks, table_with_column_rules
from tests.support.merging import feed, merge_into
from tests.support.properties import FEED
from tests.support.selection import sampled
from tests.support.tables import actions_of, folder_content, rows, sorted_rows, spark_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ON = "target.id = source.id"
DAY = dt.date(2026, 2, 3)
UPSERT = {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}]}


def assert_rejected(spark, table, error, *texts, query=None, on=ON, **merge_options):
    """Assert that the merge fails with these texts in its error, and leaves the files of the table unchanged."""
    content_before = folder_content(table)
    with pytest.raises(error) as error_info:
        merge_into(spark, table, query, on, **merge_options)
    text = f"{error_info.value.problem} {error_info.value.remedy}"
    assert all(expected_text in text for expected_text in texts), text
    assert error_info.value.remedy and folder_content(table) == content_before


ROW_QUERY = "SELECT 1L AS id, 5 AS n, 1.25BD AS d, DATE'2026-01-01' AS day, 'a' AS name, CAST(7 AS DOUBLE) AS x"


LOSSLESS_UPDATES = (
    {
        "n": ("7L", 7),
        "d": ("9.50000BD", Decimal("9.50")),
        "day": ("TIMESTAMP'2026-02-03 00:00:00'", DAY),
        "name": ("15", "15"),
    },
    {
        "n": ("CAST(3.0 AS DOUBLE)", 3),
        "d": ("CAST(4 AS TINYINT)", Decimal("4.00")),
        "day": ("CAST(NULL AS TIMESTAMP)", None),
        "x": ("CAST(0.5 AS FLOAT)", 0.5),
    },
    {
        "n": ("12.00BD", 12),
        "day": ("TIMESTAMP_NTZ'2026-02-03 00:00:00'", DAY),
        "x": ("12L", 12.0),
        "d": ("NULL", None),
    },
    {"n": ("CAST(NULL AS BIGINT)", None), "name": ("CAST(NULL AS DOUBLE)", None), "x": ("1.25BD", 1.25)},
)
"""Updates, one after the other: for each column the SQL of a value, and the value that the table then has."""


@pytest.mark.slow
@pytest.mark.sample("source")
@pytest.mark.parametrize("place", ["source", "clause"])
def test_values_are_cast_without_loss(spark, tmp_path, place):
    table = tmp_path / "t"
    write_rows(spark, table, ROW_QUERY)
    for new_values in LOSSLESS_UPDATES:
        if place == "source":
            source_columns = ", ".join(f"{value} AS v_{column}" for column, (value, _) in new_values.items())
            query, update = f"SELECT 1L AS id, {source_columns}", {column: f"v_{column}" for column in new_values}
        else:
            query, update = "SELECT 1L AS id", {column: value for column, (value, _) in new_values.items()}
        merge_into(spark, table, query, ON, matched=[{"update": update}])
        (row,) = DeltaTable(str(table)).to_arrow().to_pylist()
        expected_values = {column: expected for column, (_, expected) in new_values.items()}
        assert {column: row[column] for column in new_values} == expected_values


LOSSY_VALUES = [
    # Each case: a column, the SQL of a value that a cast to the type of the column would change, and the clause.
    ("n", "3000000000L", "update"), ("n", "1.5BD", "insert"), ("n", "CAST(2.5 AS DOUBLE)", "update"),
    ("d", "1.255BD", "update"), ("d", "100000000.00BD", "insert"), ("d", "CAST(0.1 AS DOUBLE) + 0.2D", "update"),
    ("day", "TIMESTAMP'2026-02-03 00:00:01'", "update"),
    ("x", "9007199254740993L", "update"),
]  # fmt: skip
SAMPLED_LOSSY_VALUES = ("3000000000L", "100000000.00BD", "TIMESTAMP'2026-02-03 00:00:01'")
INCOMPATIBLE_VALUES = {"day": "7", "x": "true", "id": "DATE'2026-01-01'", "name": "array(1)"}


@pytest.fixture(scope="module")
def table_of_simple_types(spark, tmp_path_factory):
    """A table with a column for each type in `ROW_QUERY`, and one row. The merges into it are rejected."""
    table = tmp_path_factory.mktemp("types") / "t"
    write_rows(spark, table, ROW_QUERY)
    return table


@pytest.mark.slow
@pytest.mark.sample(*SAMPLED_LOSSY_VALUES)
@pytest.mark.parametrize(("column", "value", "clause"), LOSSY_VALUES)
def test_a_merge_with_a_value_that_a_cast_would_change_is_rejected(spark, table_of_simple_types, column, value, clause):
    texts = (f"'{column}' is", "3000000000" if value.startswith("3") else "without loss")
    updates = {"matched": [{"update": {column: "source.v"}}]}
    inserts = {"on": "false", "inserts": [{"insert": {"id": "id", column: "v"}}]}
    clauses = updates if clause == "update" else inserts
    assert_rejected(
        spark, table_of_simple_types, SourceError, *texts, query=f"SELECT 1L AS id, {value} AS v", **clauses
    )


@pytest.mark.slow
@pytest.mark.parametrize("column", sampled(list(INCOMPATIBLE_VALUES), {"day"}))
def test_a_merge_with_a_value_of_an_incompatible_type_is_rejected(spark, table_of_simple_types, column):
    query = f"SELECT 1L AS id, {INCOMPATIBLE_VALUES[column]} AS v"
    updates = [{"update": {column: "source.v"}}]
    texts = (f"'{column}' is", "CAST")
    assert_rejected(spark, table_of_simple_types, SchemaMismatchError, *texts, query=query, matched=updates)


INVALID_MERGES = [
    # Each case: the arguments that replace or extend those of a valid merge, the error, and texts of its message.
    ({"on": "target.id = source.nope"}, InvalidRequestError, "condition on", "nope"),
    ({"on": "id = 1"}, InvalidRequestError, "condition on", "AMBIGUOUS"),
    ({"on": "target.id"}, InvalidRequestError, "condition on", "not boolean"),
    ({"on": "target.id ="}, InvalidRequestError, "condition on"),
    ({"on": "target.id = source.id AND rand() < 0.5"}, InvalidRequestError, "condition on", "deterministic"),
    ({"on": "target.day < current_date()"}, InvalidRequestError, "condition on", "current_date()", "{{ ts }}"),
    ({"on": "target.id IN (SELECT 1)"}, InvalidRequestError, "condition on", "Subquery"),
    ({"on": "count(target.id) = 1"}, InvalidRequestError, "condition on"),
    ({"on": "assert_true(target.n > 5) IS NULL"}, InvalidRequestError, "on cannot be computed"),
    ({"matched": [{"delete": True, "condition": "source.nope > 1"}]}, InvalidRequestError, "when_matched[0]", "nope"),
    (
        {"matched": [{"delete": True, "condition": "target.day < 'now'"}]},
        InvalidRequestError,
        "when_matched[0]",
        "'now'",
    ),
    (
        {
            "matched": [
                {"delete": True, "condition": "n = 1"},
                {"delete": True, "condition": "rand() > 1"},
                {"update": "*"},
            ]
        },
        InvalidRequestError,
        "when_matched[1]",
    ),
    ({"by_source": [{"delete": True, "condition": "source.id > 1"}]}, InvalidRequestError, "by_source[0]", "source.id"),
    ({"by_source": [{"update": {"n": "source.n"}}]}, InvalidRequestError, "when_not_matched_by_source[0]", "source"),
    ({"inserts": [{"insert": {"id": "target.id"}}]}, InvalidRequestError, "when_not_matched[0]", "target"),
    ({"matched": [{"update": {"n": "(SELECT 1)"}}]}, InvalidRequestError, "when_matched[0].update", "Subquery"),
    ({"matched": [{"update": {"n": "sum(source.id)"}}]}, InvalidRequestError, "when_matched[0].update"),
    ({"matched": [{"update": {"nope": "1"}}]}, InvalidRequestError, "nope"),
    ({"matched": [{"update": {"n": "1", "target.N": "2"}}]}, InvalidRequestError, "twice"),
    ({"inserts": [{"insert": {"nope": "1"}}]}, InvalidRequestError, "nope"),
    (
        {"inserts": [{"insert": "*"}]},
        SchemaMismatchError,
        "when_not_matched[0].insert",
        "no column 'n'",
        "merge_schema",
    ),
    ({"matched": [{"update": "*"}]}, SchemaMismatchError, "when_matched[0].update", "no column 'n'"),
    ({"matched": [{"update": {"n": "1 / (source.id - 1)"}}]}, SourceError, "DIVIDE_BY_ZERO"),
    ({"matched": [{"delete": True}], "query": "SELECT nope FROM source"}, InvalidRequestError, "query", "nope"),
    ({"matched": [{"delete": True}], "query": "SELECT 1 AS id, 2 AS ID"}, SchemaMismatchError, "id"),
    ({"matched": [{"delete": True}], "query": "SELECT CAST('x' AS INT) AS id"}, SourceError, "CAST_INVALID_INPUT"),
    (
        {
            "matched": [{"delete": True}],
            "sources": {"source": Source(format="parquet", path="/nowhere/at/all")},
            "query": None,
        },
        SourceNotFoundError,
        "'source'",
        "/nowhere/at/all",
        "does not exist",
    ),
]


SAMPLED_INVALID_MERGES = (0, 4, 11, 12, 16, 20, 22, 26)
"""The positions of a case for each clause and for each error."""


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(range(len(INVALID_MERGES)), SAMPLED_INVALID_MERGES))
def test_an_invalid_merge_is_rejected_with_the_clause_at_fault(spark, table_of_simple_types, case):
    overrides, error, *texts = INVALID_MERGES[case]
    merge = {"query": "SELECT 1L AS id, 1 AS other"} | overrides
    if not {"matched", "inserts", "by_source"} & merge.keys():
        merge["matched"] = [{"delete": True}]
    assert_rejected(spark, table_of_simple_types, error, *texts, **merge)


@pytest.mark.slow
def test_a_merge_into_a_missing_table_and_a_delete_from_an_append_only_table_are_rejected(spark, tmp_path):
    empty_folder = tmp_path / "nothing"
    empty_folder.mkdir()
    assert_rejected(spark, empty_folder, TableNotFoundError, query="SELECT 1L AS id", matched=[{"delete": True}])
    write_rows(spark, tmp_path / "a", ROW_QUERY, properties={"delta.appendOnly": "true"})
    assert_rejected(spark, tmp_path / "a", AppendOnlyError, query="SELECT 1L AS id", matched=[{"delete": True}])
    result = merge_into(spark, tmp_path / "a", ROW_QUERY.replace("1L", "2L"), ON, inserts=[{"insert": "*"}])
    assert result.metrics["numTargetRowsInserted"] == 1


@pytest.mark.slow
def test_column_rules_apply_to_updated_and_inserted_rows(spark, tmp_path):
    table = table_with_column_rules(tmp_path / "t")
    source = "SELECT * FROM VALUES {} AS rows(id, x, at)"
    first_source_rows = "(1L, 1, TIMESTAMP'2026-01-01 10:00:00'), (2L, 2, TIMESTAMP'2026-01-02 10:00:00')"
    assert (
        merge_into(spark, table, source.format(first_source_rows), ON, **UPSERT).metrics["numTargetRowsInserted"] == 2
    )
    first_rows = {row[1]: row for row in rows(table)}
    assert sorted(row[0] for row in first_rows.values()) == [50, 60] and high_water_marks(table, 1)["n"] == 60
    assert {key: (row[2], str(row[4]), row[5]) for key, row in first_rows.items()} == {
        1: (1, "2026-01-01", "new"),
        2: (2, "2026-01-02", "new"),
    }
    second_source_rows = "(1L, 7, TIMESTAMP'2026-01-02 11:00:00'), (3L, 3, CAST(NULL AS TIMESTAMP))"
    by_source = [{"update": {"x": "-x", "kind": "'debt'"}}]
    inserts = [{"insert": {"id": "source.id", "x": "source.x", "kind": "'given'", "day": "CAST(NULL AS DATE)"}}]
    result = merge_into(
        spark,
        table,
        source.format(second_source_rows),
        ON,
        matched=UPSERT["matched"],
        inserts=inserts,
        by_source=by_source,
    )
    rows_by_id = {row[1]: (row[0], row[2], str(row[4]), row[5]) for row in rows(table)}
    assert rows_by_id == {
        1: (first_rows[1][0], 7, "2026-01-02", "new"),
        2: (first_rows[2][0], -2, "2026-01-02", "debt"),
        3: (70, 3, "None", "given"),
    }
    assert sorted_rows(row[1:] for row in feed(table, result.version) if row[0] != "update_preimage") == rows(table)
    assert high_water_marks(table, 2)["n"] == 70
    assert [row[:3] for row in rows(table)] == [row[:3] for row in spark_rows(spark, table)]
    remaining_rows = [row for row in rows(table) if row[1] != 1]
    merge_into(spark, table, "SELECT 1L AS id", ON, matched=[{"delete": True}], inserts=[])
    assert rows(table) == remaining_rows and "metaData" not in actions_of(table, 3)


MERGES_AGAINST_RULES = {
    "a null": ({"matched": [{"update": {"id": "NULL"}}]}, ConstraintViolationError, "'id' is NOT NULL", '"id":null'),
    "an invariant": ({"matched": [{"update": {"x": "100"}}]}, ConstraintViolationError, "x < 100", '"x":100'),
    "a constraint": ({"matched": [{"update": {"x": "-1"}}]}, ConstraintViolationError, "positive", '"x":-1'),
    "a constraint, by source": (
        {"by_source": [{"update": {"kind": "'none'"}}]},
        ConstraintViolationError,
        "positive",
        '"x":-2',
    ),
    "a generated column": (
        {"matched": [{"update": {"day": "DATE'2020-01-01'"}}]},
        ConstraintViolationError,
        "'day' is generated",
        "2020",
    ),
    "an identity column": ({"matched": [{"update": {"n": "1"}}]}, InvalidRequestError, "'n'", "identity"),
    "an inserted identity": (
        {"on": "false", "inserts": [{"insert": {"id": "9", "n": "1"}}]},
        SchemaMismatchError,
        "GENERATED ALWAYS",
    ),
    "an inserted null": (
        {"on": "false", "inserts": [{"insert": {"x": "1"}}]},
        ConstraintViolationError,
        "'id' is NOT NULL",
    ),
    "a constraint, by insert": (
        {"on": "false", "inserts": [{"insert": {"id": "9", "x": "0"}}]},
        ConstraintViolationError,
        "positive",
    ),
}
"""Merges that break a rule of `table_with_column_rules`: the arguments, the error, and texts of its message."""
SAMPLED_MERGES_AGAINST_RULES = ("a constraint, by source", "a generated column", "an inserted identity")


@pytest.fixture(scope="module")
def table_with_rules(spark, tmp_path_factory):
    """A table with rules and two rows. The merges into it are rejected."""
    table = table_with_column_rules(tmp_path_factory.mktemp("rules") / "t")
    source_rows = "(1L, 7, TIMESTAMP'2026-01-02 11:00:00', 'new'), (2L, -2, NULL, 'debt')"
    merge_into(spark, table, f"SELECT * FROM VALUES {source_rows} AS rows(id, x, at, kind)", ON, **UPSERT)
    return table


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(list(MERGES_AGAINST_RULES), SAMPLED_MERGES_AGAINST_RULES))
def test_a_merge_that_breaks_a_rule_of_a_column_is_rejected(spark, table_with_rules, case):
    merge, error, *texts = MERGES_AGAINST_RULES[case]
    query = "SELECT 1L AS id, 1 AS x, TIMESTAMP'2026-01-01 10:00:00' AS at"
    assert_rejected(spark, table_with_rules, error, *texts, query=query, **merge)


NESTED_OLD = """SELECT 1L AS id, named_struct('a', 1, 'in', named_struct('p', 'p1')) AS s,
    array(named_struct('k', 1), NULL) AS list UNION ALL SELECT 2L, NULL, NULL UNION ALL SELECT 9L, NULL, array()"""
NESTED_NEW = """SELECT * FROM VALUES
    (1L, named_struct('b', 'b1', 'in', named_struct('q', 5)), array(named_struct('m', 'm1', 'k', 7L)), 'x'),
    (2L, NULL, array(NULL, named_struct('m', 'm2', 'k', 8L)), 'y'),
    (3L, named_struct('b', 'b3', 'in', NULL), NULL, NULL)
    AS rows(ID, s, list, extra)"""


@pytest.mark.sample("name")
@pytest.mark.parametrize("mode", ["none", "name"])
def test_schema_evolution_adds_the_columns_and_struct_fields_of_the_source(spark, tmp_path, mode):
    table = tmp_path / "t"
    mapping = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    write_rows(spark, table, NESTED_OLD, properties=FEED | mapping)
    schema_before = DeltaTable(str(table)).schema
    assert_rejected(spark, table, SchemaMismatchError, "'s'", "members", query=NESTED_NEW, **UPSERT)
    result = merge_into(spark, table, NESTED_NEW, ON, merge_schema=True, **UPSERT)
    assert rows(table) == sorted_rows([
        (1, {"a": 1, "in": {"p": "p1", "q": 5}, "b": "b1"}, [{"k": 7, "m": "m1"}], "x"),
        (2, None, [None, {"k": 8, "m": "m2"}], "y"),
        (3, {"a": None, "in": None, "b": "b3"}, None, None),
        (9, None, [], None),
    ])  # fmt: skip
    assert DeltaTable(str(table)).schema.names == [*schema_before.names, "extra"]
    assert [kind for kind, *_ in feed(table, result.version)].count("update_postimage") == 2
    second_result = merge_into(
        spark, table, "SELECT 1L AS id, 'only' AS extra UNION ALL SELECT 4L, 'new'", ON, merge_schema=True, **UPSERT
    )
    rows_by_id = {row[0]: row for row in rows(table)}
    assert rows_by_id[1] == (1, {"a": 1, "in": {"p": "p1", "q": 5}, "b": "b1"}, [{"k": 7, "m": "m1"}], "only")
    assert rows_by_id[4] == (4, None, None, "new") and "metaData" not in actions_of(table, second_result.version)


@pytest.mark.campaign
def test_schema_evolution_adds_only_the_columns_that_the_clauses_assign(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, a", "1, 'a'", "2, 'b'"))
    query = "SELECT 1 AS id, 'n' AS a, 5 AS b, 'c' AS c, NULL AS d UNION ALL SELECT 3, 'o', 6, 'd', NULL"
    # Without schema evolution, the merge ignores the new columns of the source.
    merge_into(spark, table, query, ON, **UPSERT)
    assert rows(table) == sorted_rows([(1, "n"), (2, "b"), (3, "o")])
    clauses = {"matched": [{"update": {"b": "source.b", "target.C": "'set'"}}], "inserts": [{"insert": {"id": "id"}}]}
    assert_rejected(spark, table, InvalidRequestError, "'b'", query=query, **clauses)
    merge_into(spark, table, query, ON, merge_schema=True, **clauses)
    assert DeltaTable(str(table)).schema.names == ["id", "a", "b", "c"]
    assert rows(table) == sorted_rows([(1, "n", 5, "set"), (2, "b", None, None), (3, "o", 6, "set")])
    assert_rejected(spark, table, SchemaMismatchError, "'d'", "CAST(NULL AS", query=query, merge_schema=True, **UPSERT)
    overflowing_query = "SELECT 1 AS id, 'w' AS a, 3000000000L AS b, 'c' AS c"
    assert_rejected(
        spark, table, SourceError, "'b' is", "3000000000", query=overflowing_query, merge_schema=True, **UPSERT
    )
    empty_merge = merge_into(
        spark, table, "SELECT 1 AS id, DATE'2026-01-01' AS e WHERE false", ON, merge_schema=True, run="r", **UPSERT
    )
    assert empty_merge.committed and DeltaTable(str(table)).schema.names == ["id", "a", "b", "c", "e"]


@pytest.mark.campaign
@pytest.mark.slow
def test_inserts_without_the_partition_column_log_a_warning(spark, tmp_path, caplog):
    def warnings():
        return [record.getMessage() for record in caplog.records if "partition column" in record.getMessage()]

    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS day", partition_by=("day",))
    query = "SELECT id, 'b' AS Day FROM VALUES (1), (2), (3) AS rows(id)"
    merge_into(spark, table, query, ON, matched=[{"update": {"id": "source.id"}}], inserts=[{"insert": "*"}])
    inserts_without_day = [{"insert": {"id": "source.id"}}]
    merge_into(spark, table, query, ON, inserts=inserts_without_day)
    assert not warnings(), "a merge that inserts no row logs no warning"
    merge_into(spark, table, "SELECT id FROM VALUES (4), (5) AS rows(id)", ON, inserts=inserts_without_day)
    (message,) = warnings()
    assert "2 rows" in message and "day" in message and str(table) in message
    merge_into(spark, table, "SELECT 6 AS id", ON, inserts=[{"insert": "*"}], merge_schema=True)
    assert len(warnings()) == 2
    assert sorted_rows(rows(table)) == sorted_rows([(1, "a"), (2, "b"), (3, "b"), (4, None), (5, None), (6, None)])
