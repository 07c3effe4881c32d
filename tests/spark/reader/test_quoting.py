"""Spark's parser reads the output of the template filters as exactly one value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_deltalite.quoting import sql_identifier, sql_literal
from deltalite.errors import InvalidRequestError
from deltalite.requests import Source
from deltalite.spark.reader.sources import query_rows
from deltalite.spark.runtime.session import settings as spark_settings
from tests.support.fuzzing import examples
from tests.support.tables import delete_rows, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

HOSTILE_TEXTS = [
    "x' OR '1'='1",
    "\\",
    "\\'",
    "'; DROP TABLE t --",
    "/* */",
    "${spark.app.name}",
    "${env:HOME}",
    "$1",
    "`a`",
    '"',
    "\n\r\t\x00\x1a",
    "%_",
    "\\u0027",
    ":name",
    "?",
    "日本 🎉 é",
    "{{ a }}",
    "",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'\"\\$`{}:?-/*u0027\n\x00"))
MOMENT = datetime(2026, 1, 31, 1, 2, 3, 4, tzinfo=UTC)
VALUES = [None, True, -7, 2**40, 0.1, Decimal("-12.30"), date(2026, 1, 31), MOMENT]


def parse_expression(spark, sql):
    return spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)


@pytest.fixture(params=["false", "true"], ids=["escapes", "raw"])
def session(spark, request):
    """The Spark session, once with and once without backslash escapes in string literals."""
    with spark_settings(spark, {"spark.sql.parser.escapedStringLiterals": request.param}):
        yield spark


@examples(150)
@given(text=TEXTS)
def test_a_quoted_text_is_parsed_to_one_literal_with_the_same_value(session, text):
    node = parse_expression(session, sql_literal(text))
    # The filter writes a text with special characters as a cast of a binary literal.
    if node.getClass().getSimpleName() == "Cast":
        node = node.child()
        assert bytes(node.value()).decode() == text
    else:
        assert node.value().toString() == text
    assert node.getClass().getSimpleName() == "Literal"


@pytest.mark.sample("O'Neil", "\\u0027")
@pytest.mark.parametrize("name", ["O'Neil", "back\\slash", "\\u0027", "plain"])
def test_a_delete_matches_a_quoted_text_with_and_without_backslash_escapes(session, tmp_path, name):
    table = tmp_path / "customers"
    pq.write_table(pa.table({"name": [name, "other"]}), tmp_path / "source.parquet")
    source = {"source": Source(format="parquet", path=str(tmp_path / "source.parquet"))}
    write_rows(session, table, sources=source)
    delete_rows(session, table, f"name = {sql_literal(name)}")
    assert rows(table) == [("other",)]


def test_hostile_texts_do_not_end_their_literal(session):
    row = session.sql(
        "SELECT " + ", ".join(f"{sql_literal(text)} AS c{n}" for n, text in enumerate(HOSTILE_TEXTS))
    ).first()
    assert list(row) == HOSTILE_TEXTS


def test_quoted_values_of_other_types_keep_their_value(spark):
    (row,) = spark.sql(
        "SELECT " + ", ".join(f"{sql_literal(value)} AS c{n}" for n, value in enumerate(VALUES))
    ).collect()
    assert list(row)[:-1] == VALUES[:-1]
    assert row[-1].astimezone(UTC) == MOMENT


def test_a_negative_number_after_a_minus_does_not_start_a_comment(spark):
    numbers = [value for value in VALUES if isinstance(value, int | float | Decimal)]
    differences = ", ".join(f"1 -{sql_literal(-value)} = 1 + {sql_literal(value)}" for value in numbers[1:])
    assert list(spark.sql(f"SELECT {differences}").first()) == [True] * len(numbers[1:])


@examples(100)
@given(name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_quoted_identifier_is_parsed_to_one_name_part(spark, name):
    try:
        quoted = sql_identifier(name)
    except InvalidRequestError:
        return
    node = parse_expression(spark, quoted)
    assert node.getClass().getSimpleName() == "UnresolvedAttribute"
    assert [node.nameParts().apply(n) for n in range(node.nameParts().size())] == [name]


def test_parameters_of_a_query_are_bound_as_values(spark, tmp_path):
    source = {"source": Source(format="json", path=str(tmp_path), schema="a STRING")}
    (tmp_path / "a.json").write_text('{"a": "1"}')
    query = "SELECT " + ", ".join(f":p{n} AS c{n}" for n in range(len(HOSTILE_TEXTS))) + " FROM source"
    with query_rows(spark, source, query, {f"p{n}": text for n, text in enumerate(HOSTILE_TEXTS)}) as query_result:
        assert [list(row) for row in query_result.frame.collect()] == [HOSTILE_TEXTS]
    with (
        pytest.raises(InvalidRequestError, match="UNBOUND_SQL_PARAMETER"),
        query_rows(spark, source, "SELECT :missing FROM source", {"other": 1}),
    ):
        pass
