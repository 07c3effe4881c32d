"""Columns of the types char(n) and varchar(n): lengths are enforced on new rows, and the types outlive every verb."""

from __future__ import annotations

import json

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.errors import ConstraintViolationError, UnsupportedFeatureError
from deltalite.protocol.schema import CHAR_VARCHAR, parse_schema
from deltalite.requests import MergeClause, MergeRequest
from tests.support.tables import HERE, hand_made, optimized, put, rows, update_rows

pytestmark = pytest.mark.spark

MEMBER = {"type": "struct", "fields": [{"name": "x", "type": "varchar(2)", "nullable": True, "metadata": {}}]}
LIST = {"type": "array", "elementType": "string", "containsNull": True}
LENGTHS = {"v": "varchar(3)", "c": "char(3)", "l": "array<varchar(2)>"}


@pytest.fixture
def table(tmp_path):
    """`v` has its type as a name, `c` and `l` in the metadata, as delta-spark writes them, and `s` inside."""
    root = tmp_path / "t"
    root.mkdir()
    fields = [("id", "long"), ("v", "varchar(3)"), ("c", "string"), ("l", LIST), ("s", MEMBER)]
    described = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {CHAR_VARCHAR: LENGTHS[name]} if name in "cl" else {},
        }
        for name, kind in fields
    ]
    hand_made(root, json.dumps({"type": "struct", "fields": described}), [])
    return root


def new_row(number, v="NULL", c="NULL", items="NULL", member="NULL"):
    return (
        f"SELECT {number}L AS id, CAST({v} AS STRING) AS v, CAST({c} AS STRING) AS c, "
        f"CAST({items} AS ARRAY<STRING>) AS l, named_struct('x', CAST({member} AS STRING)) AS s"
    )


def upsert(spark, table, query):
    clauses = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    return merge(spark, MergeRequest(table=str(table), sources={"source": HERE}, query=query,
        on="target.id = source.id", **clauses))  # fmt: skip


def test_blanks_that_are_too_many_are_cut_off_and_the_types_stay(spark, table):
    put(spark, table, new_row(1, "'ab   '", "'ab'", "array('a', 'b   ', NULL)", "'é    '"))
    assert rows(table) == [(1, "ab ", "ab", ["a", "b ", None], {"x": "é "})]
    upsert(spark, table, new_row(2, "'abc '", "'é'", "array()", "'x'"))
    upsert(spark, table, new_row(1, "'ab  '", "''"))
    assert rows(table) == [
        (1, "ab ", "", None, {"x": None}),
        (2, "abc", "é", [], {"x": "x"}),
    ]
    update_rows(spark, table, {"c": "'q'", "v": "'w    '"}, "id = 2")
    optimized(spark, table)
    assert rows(table)[1] == (2, "w  ", "q", [], {"x": "x"})
    assert ("w  ", "q") in [(r.v, r.c) for r in delta.read(spark, str(table)).collect()]
    put(spark, table, new_row(3) + ", 1 AS more", merge_schema=True)
    kept = parse_schema(DeltaTable(str(table)).metadata.schema_string)
    assert {f.name: f.metadata.get(CHAR_VARCHAR) for f in kept if f.name in LENGTHS} == LENGTHS
    assert kept.find("s").type.find("x").metadata == {CHAR_VARCHAR: "varchar(2)"}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (new_row(1, "'abcd'"), r"'v' has the type varchar\(3\)"),
        (new_row(1, c="'abcd'"), r"'c' has the type char\(3\)"),
        (new_row(1, items="array('a', 'abc')"), r"'l\.element' has the type varchar\(2\)"),
        (new_row(1, member="'abc'"), r"'s\.x' has the type varchar\(2\)"),
    ],
)
def test_a_text_that_is_too_long_is_refused(spark, table, row, named):
    for verb in (put, upsert):
        with pytest.raises(ConstraintViolationError, match=named):
            verb(spark, table, row)
    assert rows(table) == []


def test_a_type_that_is_none_is_refused_on_write_and_read_all_the_same(spark, table):
    log = next((table / "_delta_log").glob("*.json"))
    log.write_text(log.read_text().replace('"char(3)', '"nonsense(').replace('\\"char(3)', '\\"nonsense('))
    assert rows(table) == []
    with pytest.raises(UnsupportedFeatureError, match="'c' has the type"):
        put(spark, table, new_row(1))
