"""The parser turns SQL text into an equivalent predicate, or into `Unknown`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    StartsWith,
    Unknown,
    conjunction,
    conjuncts,
)
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import parse_schema
from deltalite.spark.expressions.predicates import parse_predicate, reads_only
from deltalite.spark.runtime.session import settings
from tests.support.tables import schema_json

pytestmark = [pytest.mark.spark, pytest.mark.generated_code]

MEMBER = {"type": "struct", "fields": [{"name": "B c", "type": "long", "nullable": True, "metadata": {}}]}
SCHEMA = parse_schema(
    schema_json(
        ("id", "long"),
        ("small", "integer"),
        ("name", "string"),
        ("x", "double"),
        ("f", "float"),
        ("amount", "decimal(10,2)"),
        ("day", "date"),
        ("at", "timestamp"),
        ("local", "timestamp_ntz"),
        ("ok", "boolean"),
        ("a.b", "integer"),
        ("s", MEMBER),
        ("bytes", "binary"),
    )
)


def compare(column, operator, literal):
    path = column if isinstance(column, tuple) else (column,)
    return Comparison(column=path, operator=Operator(operator), literal=literal)


local_time = dt.datetime.fromisoformat


def unknown(*columns):
    return Unknown(frozenset((column,) for column in columns))


def without_null_checks(tree):
    """The tree without the IS NOT NULL conditions that Spark's optimizer adds."""
    return conjunction(part for part in conjuncts(tree) if not isinstance(part, IsNotNull))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("id = 5", compare("id", "=", 5)),
        ("5 < ID", compare("id", ">", 5)),
        ("id >= 2 + 3", compare("id", ">=", 5)),
        ("small <=> 1", compare("small", "<=>", 1)),
        ("name > 'a\\'b'", compare("name", ">", "a'b")),
        ("x < 1.5D", compare("x", "<", 1.5)),
        ("f < 0.1F", compare("f", "<", 0.10000000149011612)),
        ("amount <= 1.50", compare("amount", "<=", Decimal("1.50"))),
        ("day = DATE'2026-01-31'", compare("day", "=", dt.date(2026, 1, 31))),
        ("day >= DATE'2026-02-01' - INTERVAL '1' DAY", compare("day", ">=", dt.date(2026, 1, 31))),
        (
            "local < TIMESTAMP_NTZ'2026-03-08 02:30:00.5'",
            compare("local", "<", local_time("2026-03-08 02:30:00.5")),
        ),
        (
            "local = TIMESTAMP_NTZ'1970-01-01 00:00:20.260101'",
            compare("local", "=", local_time("1970-01-01 00:00:20.260101")),
        ),
        ("local = TIMESTAMP_NTZ'1969-12-31 23:59:59'", compare("local", "=", local_time("1969-12-31 23:59:59"))),
        ("`a.b` = 1", compare("a.b", "=", 1)),
        ("s.`B c` = 1", compare(("s", "B c"), "=", 1)),
        ("ok", compare("ok", "=", True)),
        ("NOT ok", Not(compare("ok", "=", True))),
        ("id IN (1, 2)", In(("id",), (1, 2))),
        ("name LIKE 'ab%'", StartsWith(("name",), "ab")),
        ("id IS NULL", IsNull(("id",))),
        ("id = 1 OR name IS NULL", Or((compare("id", "=", 1), IsNull(("name",))))),
        ("NOT (id = 1)", Not(compare("id", "=", 1))),
        ("1 = 1", Constant(True)),
        ("1 = 2", Constant(False)),
        ("CAST(NULL AS BOOLEAN)", Constant(False)),
        ("name = 'today'", compare("name", "=", "today")),
        ("day = 'epoch'", compare("day", "=", dt.date(1970, 1, 1))),
        # An expression without an exact translation is unknown.
        ("abs(id) = 1", unknown("id")),
        ("id = small", unknown("id", "small")),
        ("lower(name) = 'a' AND id = 1", And((unknown("name"), compare("id", "=", 1)))),
        ("name LIKE '%b'", unknown("name")),
        ("bytes = X'00'", unknown("bytes")),
        ("exists(array(id), x -> x = 1)", unknown("id")),
        ("s = named_struct('B c', 1L)", unknown("s")),
    ],
)
def test_a_sql_predicate_is_parsed_to_the_expected_tree(spark, text, tree):
    assert without_null_checks(parse_predicate(spark, text, SCHEMA, parameter="p")) == without_null_checks(tree)


def test_an_in_list_with_many_values_is_parsed_to_one_in_predicate(spark):
    tree = without_null_checks(
        parse_predicate(spark, f"id IN ({', '.join(map(str, range(500)))})", SCHEMA, parameter="p")
    )
    assert isinstance(tree, In) and set(tree.values) == set(range(500))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+05:30", "GMT-8", "UTC+1:45"])
def test_a_timestamp_literal_is_the_same_instant_in_each_session_time_zone(spark, zone):
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        tree = without_null_checks(
            parse_predicate(spark, "at >= TIMESTAMP'2026-07-01 12:00:00Z'", SCHEMA, parameter="p")
        )
        assert tree == compare("at", ">=", dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC))
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        # The local clock shows 01:30 twice in that night, so the literal's text is ambiguous.
        tree = without_null_checks(
            parse_predicate(spark, "at >= TIMESTAMP'2026-11-01 06:30:00Z'", SCHEMA, parameter="p")
        )
        assert tree == unknown("at")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id =", "syntax"),
        ("nope = 1", "nope"),
        ("id", "BOOLEAN"),
        ("id = 'x'", "CAST_INVALID_INPUT"),
        ("id = 1 / 0", "DIVIDE_BY_ZERO"),
        ("rand() > 0.5", "deterministic"),
        ("id = 1 AND uuid() = 'x'", "deterministic"),
        ("id IN (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("id = (SELECT max(id) FROM range(3))", "subquery"),
        ("at < CURRENT_TIMESTAMP", r"contains current_timestamp\(\).*each evaluation"),
        ("day >= current_date() - INTERVAL 7 DAYS", r"contains current_date\(\)"),
        ("id = 1 OR local < localtimestamp()", r"contains localtimestamp\(\)"),
        ("exists(array(at), x -> x < now())", r"contains now\(\)"),
        ("id < unix_timestamp()", r"contains current_timestamp\(\)"),
        ("name = current_user()", r"contains current_user\(\)"),
        ("day = 'Today'", "contains 'Today'"),
        ("day IN (DATE '2026-01-01', date\"tomorrow\")", "contains 'tomorrow'"),
        ("at < TIMESTAMP 'now'", "contains 'now'"),
        ("at < to_timestamp('yesterday')", "contains 'yesterday'"),
        ("sum(id) > 1", "sum"),
        ("row_number() OVER (ORDER BY id) = 1", "window"),
        ("explode(array(id)) = 1", "generator"),
    ],
)
def test_an_unsupported_predicate_is_rejected_with_the_parameter_and_the_reason(spark, text, reason):
    with pytest.raises(InvalidRequestError, match=f"(?i){reason}") as error_info:
        parse_predicate(spark, text, SCHEMA, parameter="replace_where")
    assert "replace_where" in str(error_info.value)


def test_reads_only_is_true_if_all_columns_of_the_predicate_are_given():
    assert reads_only(And((compare("day", "=", 1), IsNull(("NAME",)))), ("DAY", "name"))
    assert not reads_only(Or((compare("day", "=", 1), unknown("id"))), ("day",))
    assert reads_only(Constant(True), ())
