"""The predicate tree, and its construction from the filters of a user."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from deltalite.columnar.predicates.binding import bind
from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.predicates.predicate import (
    EVERYTHING,
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    StartsWith,
    Unknown,
    columns_of,
    conjunction,
    conjuncts,
)
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import ArrayType, DecimalType, PrimitiveType, StructField, StructType


def field(name, kind):
    return StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind)


SCHEMA = StructType(
    (
        field("id", "long"),
        field("Name", "string"),
        field("day", "date"),
        field("at", "timestamp"),
        field("local", "timestamp_ntz"),
        field("amount", DecimalType(12, 2)),
        field("rate", "double"),
        field("ok", "boolean"),
        field("tags", ArrayType(PrimitiveType("string"))),
        field("a.b", "long"),
        field("a", StructType((field("b", "string"), field("C d", "long")))),
    )
)


def compare(column, operator, literal):
    path = (column,) if isinstance(column, str) else column
    return Comparison(column=path, operator=Operator(operator), literal=literal)


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  the tests need a time without a time zone
ID_IS_1, NAME_IS_X = compare("id", "=", 1), compare("Name", "=", "x")


@pytest.mark.parametrize(
    ("filters", "predicate"),
    [
        (None, EVERYTHING),
        ([], EVERYTHING),
        ([("id", "==", 1)], ID_IS_1),
        ([("ID", "=", 1), ("NAME", "=", "x")], And((ID_IS_1, NAME_IS_X))),
        ([[("id", "=", 1)], [("name", "=", "x"), ("id", "!=", 2)]],
         Or((ID_IS_1, And((NAME_IS_X, compare("id", "!=", 2)))))),
        ([("id", "in", [1, 2])], In(("id",), (1, 2))),
        ([("id", "NOT  IN", (1,))], Not(In(("id",), (1,)))),
        ([("tags", "is null")], IsNull(("tags",))),
        ([("tags", "is not null", None)], IsNotNull(("tags",))),
        ([("amount", ">=", Decimal("1.5"))], compare("amount", ">=", Decimal("1.5"))),
        ([("rate", "<", 3)], compare("rate", "<", 3)),
        ([["id", "=", 1]], ID_IS_1),
    ],
)  # fmt: skip
def test_filters_become_a_predicate(filters, predicate):
    assert from_filters(filters, SCHEMA) == predicate


def test_a_dotted_name_means_a_column_of_that_name_rather_than_a_member_of_a_struct():
    assert from_filters([("A.B", "=", 1)], SCHEMA) == compare("a.b", "=", 1)
    assert from_filters([("a.c D", "=", 1)], SCHEMA) == compare(("a", "C d"), "=", 1)


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ([("nope", "=", 1)], "'nope'"),
        ([("a.nope", "=", 1)], "'a.nope'"),
        ([("id", "~", 1)], "'~'"),
        ([("id", "=", "1")], "'id' of type bigint with the str '1'"),
        ([("id", "=", True)], "the bool True"),
        ([("id", "=", 1.0)], "the float 1.0"),
        ([("rate", "=", 2**53 + 1)], "'rate'"),
        ([("day", "=", NAIVE)], "'day'"),
        ([("at", "=", NAIVE)], "'at'"),
        ([("local", "=", datetime(2026, 1, 1, tzinfo=UTC))], "'local'"),
        ([("amount", "=", 1.5)], "'amount'"),
        ([("id", "=", None)], "true for no row"),
        ([("id", "in", [1, None])], "true for no row"),
        ([("id", "in", 1)], "needs a list"),
        ([("tags", "=", ["a"])], "'tags'"),
        ([("id", "=")], "true for no row"),
        ([("id", "=", 1), "id"], "malformed"),
        ([("id", "=", 1, 2)], "malformed"),
        ("id = 1", "not a list"),
        ([1], "malformed"),
    ],
)
def test_the_error_names_the_invalid_part_of_a_filter(filters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        from_filters(filters, SCHEMA)


def test_the_remedy_for_an_unknown_column_lists_the_columns():
    with pytest.raises(InvalidRequestError) as caught:
        from_filters([("nope", "=", 1)], SCHEMA)
    assert "id, Name, day" in caught.value.remedy


def test_the_remedy_names_the_python_type_for_every_column_type():
    for column in SCHEMA:
        if not isinstance(column.type, ArrayType | StructType):
            with pytest.raises(InvalidRequestError, match=r"Give (a|bytes)"):
                from_filters([(column.name, "=", object())], SCHEMA)


@pytest.mark.parametrize("name", ["void", "variant"])
def test_a_column_without_an_order_is_not_compared(name):
    schema = StructType((StructField("v", PrimitiveType(name)),))
    assert from_filters([("v", "is null")], schema) == IsNull(("v",))
    with pytest.raises(InvalidRequestError, match=f"'v' has the type {name}"):
        from_filters([("v", "=", 1)], schema)


TREE = And((ID_IS_1, Or((IsNull(("a", "b")), Not(Unknown(frozenset({("day",)})))))))


def test_the_columns_of_a_predicate_are_those_of_all_its_parts():
    assert columns_of(TREE) == {("id",), ("a", "b"), ("day",)}
    assert columns_of(EVERYTHING) == frozenset()


def test_conjuncts_flattens_a_predicate_and_conjunction_combines_it_again():
    parts = (ID_IS_1, Not(NAME_IS_X), IsNull(("id",)))
    assert conjuncts(And((And(parts[:2]), EVERYTHING, parts[2]))) == parts
    assert conjuncts(conjunction(parts)) == parts
    assert conjunction([]) == EVERYTHING
    assert conjunction([EVERYTHING, ID_IS_1]) == ID_IS_1


def test_binding_spells_columns_as_the_schema_does():
    assert bind(Not(compare(("A", "c D"), "=", 1)), SCHEMA) == Not(compare(("a", "C d"), "=", 1))


@pytest.mark.parametrize(
    "leaf",
    [
        compare("nope", "=", 1),
        compare("id", "=", "1"),
        In(("id",), (1, "2")),
        StartsWith(("id",), "1"),
        compare(("id", "below"), "=", 1),
    ],
)
def test_binding_replaces_a_leaf_by_unknown_if_it_does_not_fit_the_schema(leaf):
    bound = bind(And((leaf, ID_IS_1)), SCHEMA)
    assert isinstance(bound.children[0], Unknown) and bound.children[1] == ID_IS_1


def test_binding_keeps_null_literals_and_dates():
    predicate = And((compare("id", "<=>", None), compare("day", "<", date(2026, 1, 1)), StartsWith(("Name",), "x")))
    assert bind(predicate, SCHEMA) == predicate
