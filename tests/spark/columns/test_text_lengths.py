"""The types char(n) and varchar(n): new texts must not be longer, reads pad char(n), and operations keep the types."""

from __future__ import annotations

import json
import shutil

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.errors import ConstraintViolationError, UnsupportedFeatureError
from deltalite.protocol.schema import CHAR_VARCHAR, parse_schema
from deltalite.requests import MergeClause, MergeRequest
from deltalite.spark.runtime.session import settings
from tests.support.tables import (
    UNUSED_SOURCE,
    delete_rows,
    optimize_table,
    rows,
    update_rows,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

MEMBER = {"type": "struct", "fields": [{"name": "x", "type": "varchar(2)", "nullable": True, "metadata": {}}]}
LIST_OF_STRINGS = {"type": "array", "elementType": "string", "containsNull": True}
LENGTHS = {"v": "varchar(3)", "c": "char(3)", "l": "array<varchar(2)>"}


@pytest.fixture
def table(tmp_path):
    """An empty table. `v` and the member of `s` have varchar as their type.

    `c` and `l` have strings as their type and the length in the metadata of the field, as delta-spark writes them.
    """
    root = tmp_path / "t"
    root.mkdir()
    fields = [("id", "long"), ("v", "varchar(3)"), ("c", "string"), ("l", LIST_OF_STRINGS), ("s", MEMBER)]
    json_fields = [
        {
            "name": name,
            "type": kind,
            "nullable": True,
            "metadata": {CHAR_VARCHAR: LENGTHS[name]} if name in ("c", "l") else {},
        }
        for name, kind in fields
    ]
    write_foreign_table(root, json.dumps({"type": "struct", "fields": json_fields}), [])
    return root


def row_query(row_id, v="NULL", c="NULL", items="NULL", member="NULL"):
    """The query for one row of the table; the values are SQL."""
    return (
        f"SELECT {row_id}L AS id, CAST({v} AS STRING) AS v, CAST({c} AS STRING) AS c, "
        f"CAST({items} AS ARRAY<STRING>) AS l, named_struct('x', CAST({member} AS STRING)) AS s"
    )


def upsert(spark, table, query):
    clauses = {"when_matched": (MergeClause(update="*"),), "when_not_matched": (MergeClause(insert="*"),)}
    return merge(spark, MergeRequest(table=str(table), sources={"source": UNUSED_SOURCE}, query=query,
        on="target.id = source.id", **clauses))  # fmt: skip


@pytest.mark.campaign
def test_blanks_beyond_the_length_are_removed_and_the_types_are_kept(spark, table):
    write_rows(spark, table, row_query(1, "'ab   '", "'ab'", "array('a', 'b   ', NULL)", "'é    '"))
    assert rows(table) == [(1, "ab ", "ab ", ["a", "b ", None], {"x": "é "})]
    upsert(spark, table, row_query(2, "'abc '", "'é'", "array()", "'x'"))
    upsert(spark, table, row_query(1, "'ab  '", "''"))
    assert rows(table) == [
        (1, "ab ", "   ", None, {"x": None}),
        (2, "abc", "é  ", [], {"x": "x"}),
    ]
    update_rows(spark, table, {"c": "'q'", "v": "'w    '"}, "id = 2")
    optimize_table(spark, table)
    assert rows(table)[1] == (2, "w  ", "q  ", [], {"x": "x"})
    assert ("w  ", "q  ") in [(r.v, r.c) for r in delta.read(spark, str(table)).collect()]
    write_rows(spark, table, row_query(3) + ", 1 AS more", merge_schema=True)
    schema = parse_schema(DeltaTable(str(table)).metadata.schema_string)
    assert {f.name: f.metadata.get(CHAR_VARCHAR) for f in schema if f.name in LENGTHS} == LENGTHS
    assert schema.find("s").type.find("x").metadata == {CHAR_VARCHAR: "varchar(2)"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (row_query(1, "'abcd'"), r"'v' has the type varchar\(3\)"),
        pytest.param(row_query(1, c="'abcd'"), r"'c' has the type char\(3\)", marks=pytest.mark.campaign),
        (row_query(1, items="array('a', 'abc')"), r"'l\.element' has the type varchar\(2\)"),
        pytest.param(row_query(1, member="'abc'"), r"'s\.x' has the type varchar\(2\)", marks=pytest.mark.campaign),
    ],
)
def test_a_text_that_is_too_long_is_rejected(spark, table, row, problem):
    for operation in (write_rows, upsert):
        with pytest.raises(ConstraintViolationError, match=problem):
            operation(spark, table, row)
    assert rows(table) == []


def test_an_invalid_char_type_is_rejected_on_write_and_read_as_text(spark, table):
    log = next((table / "_delta_log").glob("*.json"))
    log.write_text(log.read_text().replace('"char(3)', '"nonsense(').replace('\\"char(3)', '\\"nonsense('))
    assert rows(table) == []
    with pytest.raises(UnsupportedFeatureError, match="'c' has the type"):
        write_rows(spark, table, row_query(1))


CHARS = {"c": "char(5)", "p": "char(3)", "l": "array<char(3)>", "s": "struct<x:char(3)>"}


@pytest.fixture(scope="module")
def unpadded_template(spark, tmp_path_factory):
    """A table with columns of the type char(n). Like delta-spark 4.4, it stores some of the texts without padding."""
    root = tmp_path_factory.mktemp("template") / "u"
    query = (
        "SELECT * FROM VALUES (1L, 'ab', 'x', array('a'), named_struct('x', 'b')), "
        "(2L, 'ab   ', 'x  ', NULL, NULL), (3L, 'abcde', 'xyz', array('abc', NULL), named_struct('x', NULL)) "
        "AS rows (id, c, p, l, s)"
    )
    write_rows(spark, root, query, partition_by=["p"])
    log = root / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        if field["name"] in CHARS:
            field["metadata"] = {CHAR_VARCHAR: CHARS[field["name"]]}
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in root.glob("_delta_log/*.crc"):
        checksum.unlink()
    return root


@pytest.fixture
def unpadded(unpadded_template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(unpadded_template, tmp_path / "u")


def read_ids(spark, table, where):
    """The ids of the rows that satisfy a condition.

    The parameter `where` of `read` and Spark's filter must select the same rows.
    """
    ids_read = sorted(row.id for row in delta.read(spark, str(table), where=where).collect())
    assert ids_read == sorted(row.id for row in delta.read(spark, str(table)).where(where).collect())
    return ids_read


def test_a_shorter_char_is_padded_on_read(spark, unpadded):
    assert sorted(tuple(row) for row in delta.read(spark, str(unpadded)).collect()) == [
        (1, "ab   ", "x  ", ["a  "], ("b  ",)),
        (2, "ab   ", "x  ", None, None),
        (3, "abcde", "xyz", ["abc", None], (None,)),
    ]


# The expected ids are those that delta-spark 4.4 on Spark 4.2 selects.
@pytest.mark.sample("c = 'ab'", "c IN ('ab', 'zz')", "c LIKE 'ab'", "length(c) = 5", "s.x = 'b'", "c <> 'ab'", "c = p")
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("c = 'ab'", [1, 2]), ("c = 'ab   '", [1, 2]), ("c = 'ab      '", [1, 2]), ("'ab' = c", [1, 2]),
        ("c IN ('ab', 'zz')", [1, 2]), ("c LIKE 'ab'", []), ("c < 'abc'", [1, 2]), ("c <=> 'ab'", [1, 2]),
        ("p = 'x'", [1, 2]), ("length(c) = 5", [1, 2, 3]), ("s.x = 'b'", []), ("l[0] = 'a'", []), ("s.x = 'b  '", [1]),
        ("c >= 'ab'", [1, 2, 3]), ("c || '' = 'ab'", []), ("trim(c) = 'ab'", [1, 2]), ("c = 'abcdefg'", []),
        ("c <> 'ab'", [3]), ("c = concat('a', 'b')", [1, 2]), ("c = 'ab' AND p = 'x'", [1, 2]), ("c = p", []),
    ],
)  # fmt: skip
def test_comparisons_match_as_in_spark_with_and_without_stored_blanks(spark, unpadded, where, ids):
    assert read_ids(spark, unpadded, where) == ids


@pytest.mark.parametrize("condition", ["p = 'x'", "c IN ('ab') AND (s.x = 'b  ' OR id = 2)"])
@pytest.mark.campaign
def test_conditions_of_operations_match_the_same_rows_as_a_read(spark, unpadded, condition):
    update_rows(spark, unpadded, {"c": "'new'"}, condition)
    assert read_ids(spark, unpadded, "c = 'new'") == [1, 2]
    delete_rows(spark, unpadded, "c = 'new' AND p = 'x'")
    assert read_ids(spark, unpadded, "true") == [3]


@pytest.mark.campaign
def test_a_replacement_of_a_partition_finds_files_with_unpadded_partition_values(spark, unpadded):
    write_rows(spark, unpadded, "SELECT 9L AS id, 'q' AS c, 'x' AS p", mode="overwrite", partition_overwrite="dynamic")
    assert read_ids(spark, unpadded, "true") == [3, 9]
    write_rows(spark, unpadded, "SELECT 8L AS id, 'q' AS c, 'x' AS p", mode="overwrite", replace_where="p = 'x'")
    assert read_ids(spark, unpadded, "true") == [3, 8]
    optimize_table(spark, unpadded, where="p = 'x'")
    assert read_ids(spark, unpadded, "p = 'x'") == [8]


@pytest.mark.campaign
def test_a_merge_compares_padded_texts_of_the_table(spark, unpadded):
    def merge_on(on):
        query = "SELECT 'ab' AS k, 1 AS n"
        return merge(spark, MergeRequest(table=str(unpadded), sources={"source": UNUSED_SOURCE}, query=query, on=on,
            when_matched=(MergeClause(update={"id": "target.id + 10"}, condition="target.p = 'x'"),)))  # fmt: skip

    merge_on("target.c = source.k")  # No row matches. A join in Spark does not match these rows either.
    assert read_ids(spark, unpadded, "true") == [1, 2, 3]
    assert merge_on("target.c = rpad(source.k, 5, ' ')").metrics["numTargetRowsUpdated"] == 2
    assert merge_on("target.c = 'ab' AND source.n = 1").metrics["numTargetRowsUpdated"] == 2
    assert read_ids(spark, unpadded, "true") == [3, 21, 22]


@pytest.mark.campaign
def test_check_constraints_compare_padded_texts(spark, table):
    log = next((table / "_delta_log").glob("*.json"))
    text = log.read_text().replace('"minWriterVersion": 2', '"minWriterVersion": 3')
    log.write_text(
        text.replace('"configuration": {}', '"configuration": {"delta.constraints.k": "c IN (\'ab\', \'cd\')"}')
    )
    write_rows(spark, table, row_query(1, c="'ab'"))
    upsert(spark, table, row_query(2, c="'cd'"))
    update_rows(spark, table, {"c": "'cd'"}, "c = 'ab'")
    assert [row[2] for row in rows(table)] == ["cd ", "cd "]
    with pytest.raises(ConstraintViolationError, match="'cd'"):
        write_rows(spark, table, row_query(3, c="'ef'"))


def test_settings_of_spark_can_disable_the_padding(spark, unpadded):
    with settings(spark, {"spark.sql.readSideCharPadding": "false"}):
        assert sorted(row.c for row in delta.read(spark, str(unpadded)).collect()) == ["ab", "ab   ", "abcde"]
        assert read_ids(spark, unpadded, "c = 'ab'") == [1, 2]
    with settings(spark, {"spark.sql.legacy.charVarcharAsString": "true"}):
        assert read_ids(spark, unpadded, "c = 'ab'") == [1]
