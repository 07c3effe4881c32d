"""A file is skipped only when no row of it matches: shown on rows, by an evaluator that knows nothing of files."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltalite.columnar.predicate import (
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
)
from deltalite.columnar.skipping import FileTest, prune
from deltalite.protocol.schema import DecimalType, PrimitiveType, StructField, StructType

TYPES = {
    "i": PrimitiveType("long"),
    "d": PrimitiveType("double"),
    "s": PrimitiveType("string"),
    "t": PrimitiveType("timestamp"),
    "n": PrimitiveType("timestamp_ntz"),
    "m": DecimalType(20, 2),
    "p": PrimitiveType("string"),
    "q": PrimitiveType("date"),
}
SCHEMA = StructType(
    (
        *(StructField(name, kind) for name, kind in TYPES.items()),
        StructField("st", StructType((StructField("x", PrimitiveType("integer")),))),
    )
)
PARTITION = ("p", "q")
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  without a zone on purpose

# Few distinct values, so that bounds and literals meet often.
moments = st.integers(-2_500, 2_500).map(lambda micros: EPOCH + timedelta(microseconds=micros))
VALUES = {
    "i": st.integers(-3, 3),
    "d": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan]),
    "s": st.one_of(
        st.text(alphabet="ab\x7f\U0010ffff", max_size=3),
        st.text(alphabet="ab", min_size=1, max_size=2).map(lambda end: "x" * 32 + end),
    ),
    "t": moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    "n": moments,
    "m": st.sampled_from([Decimal(x) for x in ("-1.25", "0.00", "123456789012345678.25", "123456789012345678.26")]),
    "p": st.sampled_from(["a", "b", "x" * 40]),
    "q": st.sampled_from([date(2026, 1, 1), date(2026, 1, 2)]),
}


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(sorted(VALUES)))
    literal = st.one_of(VALUES[column], VALUES[column], st.none())
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "not null", "starts", "constant", "unknown"]))
    match kind:
        case "in":
            return In((column,), tuple(draw(st.lists(literal, max_size=3))))
        case "null":
            return IsNull((column,))
        case "not null":
            return IsNotNull((column.upper(),))
        case "starts":
            return StartsWith((draw(st.sampled_from(["s", "p"])),), draw(VALUES["s"]))
        case "constant":
            return Constant(draw(st.sampled_from([True, False, None])))
        case "unknown":
            return Unknown(frozenset({(column,)}))
        case _:
            return Comparison(column=(column,), operator=draw(st.sampled_from(Operator)), literal=draw(literal))


predicates = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, max_size=3).map(lambda children: And(tuple(children))),
        st.lists(inner, max_size=3).map(lambda children: Or(tuple(children))),
    ),
    max_leaves=5,
)
rows_of_one_file = st.builds(
    lambda partition, rows: [row | partition for row in rows],
    st.fixed_dictionaries({name: st.none() | VALUES[name] for name in PARTITION}),
    st.lists(st.fixed_dictionaries({n: st.none() | VALUES[n] for n in VALUES if n not in PARTITION}), max_size=4),
)


# The evaluator of rows. An unknown part is tried as each truth that it may have.


def rank(value):
    """Spark's order: NaN above all, -0.0 equal to 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return (0, value)


def compare(left, operator, right):
    if operator == "<=>":
        return (left is None) == (right is None) and (left is None or rank(left) == rank(right))
    if left is None or right is None:
        return None
    a, b = rank(left), rank(right)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def negation(truth):
    return None if truth is None else not truth


def conjunction(truths):
    return False if False in truths else None if None in truths else True


def truth(predicate, row, unknown):  # noqa: C901  one arm a kind
    match predicate:
        case Constant(own):
            return own
        case Unknown():
            return unknown
        case Not(child):
            return negation(truth(child, row, unknown))
        case And(children):
            return conjunction([truth(child, row, unknown) for child in children])
        case Or(children):
            return negation(conjunction([negation(truth(child, row, unknown)) for child in children]))
        case IsNull((column,)):
            return row[column.lower()] is None
        case IsNotNull((column,)):
            return row[column.lower()] is not None
        case In((column,), values):
            return negation(conjunction([negation(compare(row[column], "=", value)) for value in values]))
        case StartsWith((column,), prefix):
            return None if row[column] is None else row[column].startswith(prefix)
        case Comparison(column=(column,), operator=operator, literal=literal):
            return compare(row[column], operator, literal)


# Statistics, by the book of each writer.


def cut(moment, zone):
    return moment.isoformat()[:19] + f".{moment.microsecond // 1000:03d}" + zone


def in_json(column, value, *, upper, sloppy):
    match column:
        case "s" if sloppy:
            return value[:32]
        case "s":
            return value[:32] + ("\U0010ffff" if upper and len(value) > 32 else "")
        case "t":
            return cut(value, "Z")
        case "n":
            return cut(value, "")
        case "m":
            return float(value) if sloppy else value
        case _:
            return value


def stats_of(rows, *, sloppy):
    low, high, nulls = {}, {}, {}
    for column in VALUES:
        values = [row[column] for row in rows if row[column] is not None]
        if column in PARTITION:
            continue
        nulls[column] = len(rows) - len(values)
        values = [value for value in values if not (isinstance(value, float) and not math.isfinite(value))]
        if column == "d" and any(row["d"] is not None and math.isinf(row["d"]) for row in rows):
            continue
        if values:
            low[column] = in_json(column, min(values), upper=False, sloppy=sloppy)
            high[column] = in_json(column, max(values), upper=True, sloppy=sloppy)
    stats = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(stats, default=lambda number: f"<{number}>").replace('"<', "").replace('>"', "")


def partition_values(rows):
    row = rows[0] if rows else dict.fromkeys(PARTITION)
    return {name: None if row[name] is None else str(row[name]) for name in PARTITION}


@settings(max_examples=600, deadline=None)
@given(predicate=predicates, rows=rows_of_one_file, sloppy=st.booleans(), with_stats=st.booleans())
def test_a_file_with_a_matching_row_is_never_skipped(predicate, rows, sloppy, with_stats):
    test = FileTest(predicate, SCHEMA, PARTITION)
    stats = stats_of(rows, sloppy=sloppy) if with_stats else None
    truths = {truth(predicate, row, unknown) for row in rows for unknown in (True, False, None)}
    if True in truths:
        assert test.may_match(partition_values(rows), stats)


def compared(column, operator, literal):
    return Comparison(column=(column,), operator=Operator(operator), literal=literal)


def file_test(predicate):
    return FileTest(predicate, SCHEMA, PARTITION)


def stats_with(column, low, high, nulls=0, records=2):
    return json.dumps(
        {"numRecords": records, "minValues": {column: low}, "maxValues": {column: high}, "nullCount": {column: nulls}}
    )


NO_PARTITION = {"p": None, "q": None}


@pytest.mark.parametrize(
    ("predicate", "stats"),
    [
        (compared("i", "=", 5), stats_with("i", 1, 4)),
        (compared("i", ">", 4), stats_with("i", 1, 4)),
        (Not(compared("i", "<=", 4)), stats_with("i", 1, 4)),
        (compared("i", "!=", 4), stats_with("i", 4, 4)),
        (In(("i",), (0, 5)), stats_with("i", 1, 4)),
        (IsNull(("i",)), stats_with("i", 1, 4)),
        (IsNotNull(("i",)), stats_with("i", None, None, nulls=2)),
        (compared("i", "=", 1), stats_with("i", None, None, nulls=2)),
        (Not(compared("i", "=", 1)), stats_with("i", None, None, nulls=2)),
        (compared("i", "<=>", 1), stats_with("i", None, None, nulls=2)),
        (compared("i", "=", None), None),
        (compared("d", "=", 5.0), stats_with("d", 1.0, 4.0)),
        (compared("d", "<", 1.0), stats_with("d", 1.0, 4.0)),
        (compared("s", "=", "z"), stats_with("s", "a", "b")),
        (StartsWith(("s",), "bb"), stats_with("s", "a", "b")),
        (StartsWith(("s",), "a"), stats_with("s", "b", "c")),
        (compared("t", ">=", datetime(2026, 1, 2, tzinfo=UTC)),
         stats_with("t", "2026-01-01T00:00:00.000Z", "2026-01-01T23:59:59.999Z")),
        (And((compared("i", "=", 5), Unknown(frozenset()))), stats_with("i", 1, 4)),
        (compared("s", "=", "z"), stats_with("i", 1, 4, records=0)),
        (Comparison(column=("ST", "X"), operator=Operator.EQ, literal=9),
         stats_with("st", {"x": 1}, {"x": 4}, {"x": 0})),
    ],
)  # fmt: skip
def test_a_file_that_cannot_match_is_skipped(predicate, stats):
    assert not file_test(predicate).may_match(NO_PARTITION, stats)


@pytest.mark.parametrize(
    ("predicate", "stats"),
    [
        (compared("d", ">", 5.0), stats_with("d", 1.0, 4.0)),
        (compared("d", "=", math.nan), stats_with("d", 1.0, 4.0)),
        (compared("d", "!=", 1.0), stats_with("d", 1.0, 1.0)),
        (compared("d", "=", -0.0), stats_with("d", 0.0, 4.0)),
        (compared("t", ">", datetime(2026, 1, 1, 0, 0, 0, 999, tzinfo=UTC) - timedelta(microseconds=1)),
         stats_with("t", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")),
        (compared("s", ">", "x" * 32), stats_with("s", "a", "x" * 32)),
        (compared("i", "=", 5), stats_with("i", 9, 1)),
        (compared("i", "=", 5), stats_with("i", "1", "4")),
        (compared("i", "=", "5"), stats_with("i", 1, 4)),
        (compared("t", "=", datetime(2026, 1, 1, tzinfo=UTC)), stats_with("t", "yesterday", "today")),
        (compared("m", "=", Decimal("123456789012345678.26")), '{"maxValues": {"m": 123456789012345680.0}}'),
        (compared("m", "=", Decimal("123456789012345678.26")), '{"minValues": {"m": 123456789012345680.0}}'),
        (compared("m", "=", Decimal("123456789012345690.26")), '{"maxValues": {"m": 123456789012345680.0}}'),
        (compared("i", "=", 5), "not json"),
        (compared("i", "=", 5), "[]"),
        (compared("i", "=", 5), '{"minValues": 7, "maxValues": null, "nullCount": {"i": -1}}'),
        (compared("gone", "=", 5), None),
        (Not(Unknown(frozenset())), stats_with("i", 1, 4)),
    ],
)  # fmt: skip
def test_a_file_whose_statistics_prove_nothing_is_kept(predicate, stats):
    assert file_test(predicate).may_match(NO_PARTITION, stats)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_32_bit_float_that_was_printed_short_is_compared_as_the_float_it_is(kind):
    schema = StructType((StructField("f", PrimitiveType(kind)),))
    for text, stored in ((0.7, 0.699999988079071), (3.4, 3.4000000953674316)):
        assert FileTest(compared("f", "=", stored), schema, ()).may_match({}, stats_with("f", text, text))


def test_a_decimal_that_was_forced_into_64_bits_is_no_bound():
    beyond = compared("m", "=", Decimal("999999999999999999.00") * 100)
    assert file_test(beyond).may_match(NO_PARTITION, stats_with("m", 0, 2**63 - 1))
    assert file_test(compared("m", "<", -(10**19))).may_match(NO_PARTITION, stats_with("m", -(2**63), 0))


def files_table(*files):
    return pa.table(
        {
            "path": [f"f{number}" for number in range(len(files))],
            "partitionValues": pa.array(
                [list(values.items()) for values, _ in files], pa.map_(pa.string(), pa.string())
            ),
            "stats": pa.array([stats for _, stats in files], pa.string()),
        }
    )


FILES = files_table(
    ({"p": "a", "q": "2026-01-01"}, stats_with("i", 1, 2)),
    ({"p": "a", "q": "2026-01-02"}, stats_with("i", 3, 4)),
    ({"p": "b", "q": "2026-01-01"}, stats_with("i", 5, 6)),
    ({"p": None, "q": ""}, None),
    ({"p": "a", "q": "2026-01-01"}, stats_with("i", 7, 8)),
)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (compared("p", "=", "a"), "f0 f1 f4"),
        (And((compared("p", "=", "a"), compared("q", "=", date(2026, 1, 1)))), "f0 f4"),
        (And((compared("p", "=", "a"), compared("i", ">", 2))), "f1 f4"),
        (Or((compared("p", "=", "b"), compared("i", "<", 2))), "f0 f2 f3"),
        (IsNull(("q",)), "f3"),
        (Not(compared("p", "=", "a")), "f2"),
        (Constant(None), ""),
        (compared("p", "=", "zz"), ""),
        (Unknown(frozenset({("p",)})), "f0 f1 f2 f3 f4"),
    ],
)
def test_pruning_keeps_the_files_that_may_match_in_their_order(predicate, kept):
    assert prune(FILES, predicate, SCHEMA, PARTITION)["path"].to_pylist() == kept.split()


def test_pruning_with_a_predicate_that_is_always_true_hands_back_the_same_table():
    assert prune(FILES, Constant(True), SCHEMA, PARTITION) is FILES


def test_pruning_no_files_gives_no_files():
    assert prune(FILES.slice(0, 0), compared("p", "=", "a"), SCHEMA, PARTITION).num_rows == 0


def test_pruning_works_on_a_table_of_several_chunks():
    twice = pa.concat_tables([FILES, FILES])
    assert prune(twice, And((compared("p", "=", "b"), compared("i", ">", 2))), SCHEMA, PARTITION).num_rows == 2
