"""Examples of files that data skipping skips or keeps. `test_skipping_properties.py` has random examples."""

from __future__ import annotations

import itertools
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from deltalite.columnar.predicates.masks import Masks
from deltalite.columnar.predicates.outcomes import FALSE, NULL, TRUE, combine_outcomes
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
)
from deltalite.columnar.skipping.files import FileTest, prune
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.schema import DecimalType, PrimitiveType, StructField, StructType
from tests.support.lake import comparison
from tests.support.skipping import conjunction, files_table, negation

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
TABLE = TableSchema(logical=SCHEMA, partition_columns=PARTITION)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  the tests need a time without a time zone


def file_test(predicate):
    return FileTest(predicate, TABLE)


def column_test(kind, predicate, **options):
    return FileTest(predicate, TableSchema(logical=StructType((StructField("c", kind),)), **options))


def stats_with(column, low, high, nulls=0, records=2):
    return json.dumps(
        {"numRecords": records, "minValues": {column: low}, "maxValues": {column: high}, "nullCount": {column: nulls}}
    )


NO_PARTITION = {"p": None, "q": None}


@pytest.mark.parametrize(
    ("predicate", "stats"),
    [
        (comparison("i", "=", 5), stats_with("i", 1, 4)),
        (comparison("i", ">", 4), stats_with("i", 1, 4)),
        (Not(comparison("i", "<=", 4)), stats_with("i", 1, 4)),
        (comparison("i", "!=", 4), stats_with("i", 4, 4)),
        (In(("i",), (0, 5)), stats_with("i", 1, 4)),
        (IsNull(("i",)), stats_with("i", 1, 4)),
        (IsNotNull(("i",)), stats_with("i", None, None, nulls=2)),
        (comparison("i", "=", 1), stats_with("i", None, None, nulls=2)),
        (Not(comparison("i", "=", 1)), stats_with("i", None, None, nulls=2)),
        (comparison("i", "<=>", 1), stats_with("i", None, None, nulls=2)),
        (comparison("i", "=", None), None),
        (comparison("d", "=", 5.0), stats_with("d", 1.0, 4.0)),
        (comparison("d", "<", 1.0), stats_with("d", 1.0, 4.0)),
        (comparison("s", "=", "z"), stats_with("s", "a", "b")),
        (StartsWith(("s",), "bb"), stats_with("s", "a", "b")),
        (StartsWith(("s",), "a"), stats_with("s", "b", "c")),
        (comparison("t", ">=", datetime(2026, 1, 2, tzinfo=UTC)),
         stats_with("t", "2026-01-01T00:00:00.000Z", "2026-01-01T23:59:59.999Z")),
        (And((comparison("i", "=", 5), Unknown(frozenset()))), stats_with("i", 1, 4)),
        (Comparison(column=("ST", "X"), operator=Operator.EQ, literal=9),
         stats_with("st", {"x": 1}, {"x": 4}, {"x": 0})),
    ],
)  # fmt: skip
def test_a_file_that_cannot_match_is_skipped(predicate, stats):
    assert not file_test(predicate).may_match(NO_PARTITION, stats)


@pytest.mark.parametrize(
    ("predicate", "stats"),
    [
        (comparison("d", ">", 5.0), stats_with("d", 1.0, 4.0)),
        (comparison("d", "=", math.nan), stats_with("d", 1.0, 4.0)),
        (comparison("d", "!=", 1.0), stats_with("d", 1.0, 1.0)),
        (comparison("d", "=", -0.0), stats_with("d", 0.0, 4.0)),
        (comparison("t", ">", datetime(2026, 1, 1, 0, 0, 0, 999, tzinfo=UTC) - timedelta(microseconds=1)),
         stats_with("t", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")),
        (comparison("s", ">", "x" * 32), stats_with("s", "a", "x" * 32)),
        (comparison("i", "=", 5), stats_with("i", 9, 1)),
        (comparison("i", "=", 5), stats_with("i", "1", "4")),
        (comparison("i", "=", "5"), stats_with("i", 1, 4)),
        (comparison("t", "=", datetime(2026, 1, 1, tzinfo=UTC)), stats_with("t", "yesterday", "today")),
        (comparison("m", "=", Decimal("123456789012345678.26")), '{"maxValues": {"m": 123456789012345680.0}}'),
        (comparison("m", "=", Decimal("123456789012345678.26")), '{"minValues": {"m": 123456789012345680.0}}'),
        (comparison("m", "=", Decimal("123456789012345690.26")), '{"maxValues": {"m": 123456789012345680.0}}'),
        (comparison("i", "=", 5), "not json"),
        (comparison("i", "=", 5), "[]"),
        (comparison("i", "=", 5), '{"minValues": 7, "maxValues": null, "nullCount": {"i": -1}}'),
        (comparison("gone", "=", 5), None),
        (Not(Unknown(frozenset())), stats_with("i", 1, 4)),
        *((predicate, stats)
          for predicate in (comparison("i", "=", 5), comparison("i", "<=>", 5), In(("i",), (5,)), IsNotNull(("i",)))
          for stats in ('{"numRecords":0}', stats_with("i", None, None, records=0))),
        (IsNull(("i",)), '{"numRecords":0}'),
        (StartsWith(("s",), "a"), stats_with("s", None, None, records=0)),
        (comparison("p", "<=>", None), '{"numRecords":0}'),
    ],
)  # fmt: skip
def test_a_file_with_inconclusive_statistics_is_kept(predicate, stats):
    assert file_test(predicate).may_match(NO_PARTITION, stats)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_32_bit_float_in_short_notation_is_compared_as_that_float(kind):
    schema = StructType((StructField("f", PrimitiveType(kind)),))
    for text, stored_value in ((0.7, 0.699999988079071), (3.4, 3.4000000953674316)):
        assert FileTest(comparison("f", "=", stored_value), TableSchema(logical=schema)).may_match(
            {}, stats_with("f", text, text)
        )


def test_a_bound_of_a_32_bit_float_is_rounded_in_both_directions_after_a_widening():
    for text, stored_value in ((0.7, 0.699999988079071), (3.4, 3.4000000953674316)):
        equal = column_test(PrimitiveType("double"), comparison("c", "=", stored_value))
        assert equal.may_match({}, json.dumps({"minValues": {"c": text}}))
        assert equal.may_match({}, json.dumps({"maxValues": {"c": text}}))


def test_a_partition_of_32_bit_floats_has_the_value_of_the_float():
    def test_of(value):
        return column_test(PrimitiveType("float"), comparison("c", "=", value), partition_columns=("c",))

    assert test_of(3.4000000953674316).may_match({"c": "3.4"}, None)
    assert not test_of(3.4).may_match({"c": "3.4"}, None)


@pytest.mark.parametrize(
    ("high", "value"),
    [
        ("x" * 32, "x" * 32 + "y"),
        ("x" * 32 + "\ufffd", "x" * 32 + "\U0001f600"),
        ("x" * 31 + "?\ufffd", "x" * 31 + "\U0001f600y"),
        ("x" * 31 + "\ud83d", "x" * 31 + "\U0001f600y"),
        ("\U0001f600" * 16, "\U0001f600" * 16 + "y"),
        ("\U0001f600" * 16 + "\ufffd", "\U0001f600" * 17),
        ("xyz\ufffd", "xyz\U0001f600"),
        ("xyz?\ufffd", "xyz\U0001f600y"),
        ("xyz\x7f", "xyz\x80"),
        ("xyz\U0010ffff", "xyz\U0010ffff\U0010ffff"),
        ("\ufffd", "\U0001f600"),
    ],
)
def test_a_file_with_a_truncated_maximum_may_have_each_value_with_its_prefix(high, value):
    for predicate in (comparison("s", "=", value), comparison("s", ">=", value), StartsWith(("s",), value)):
        assert file_test(predicate).may_match(NO_PARTITION, stats_with("s", "a", high))
    if high != "\ufffd":  # its prefix is empty
        above = "\U0010ffff" + value
        assert not file_test(comparison("s", "=", above)).may_match(NO_PARTITION, stats_with("s", "a", high))


@pytest.mark.parametrize("is_tight", [True, False])
def test_a_null_count_decides_only_if_it_is_zero_or_the_number_of_rows(is_tight):
    def outcome(nulls, low=None):
        stats = json.loads(stats_with("i", low, low, nulls=nulls, records=3)) | {"tightBounds": is_tight}
        test = file_test(IsNull(("i",)))
        return test.possible_outcomes(NO_PARTITION, json.dumps(stats))

    assert outcome(0) == FALSE
    assert outcome(3) == TRUE
    assert outcome(2) == TRUE | FALSE
    assert outcome(4) == TRUE | FALSE, "more nulls than rows"
    assert outcome(3, low=1) == TRUE | FALSE, "bounds of a column that is all null"


@pytest.mark.parametrize(
    ("kind", "low", "high", "inside", "outside"),
    [
        (PrimitiveType("timestamp_ntz"), "1970-01-01", "1970-01-02", EPOCH + timedelta(1), EPOCH + timedelta(2)),
        (PrimitiveType("double"), 1, 4, 4.0, 5.0),
        (PrimitiveType("long"), 1, 4, 4, 5),
        (DecimalType(12, 2), 1, 4, Decimal(4), Decimal("4.01")),
        (DecimalType(12, 4), 1.25, 4.5, Decimal("4.5"), Decimal("4.5001")),
    ],
)
def test_statistics_from_before_a_widening_are_bounds_of_the_wider_column(kind, low, high, inside, outside):
    stats = stats_with("c", low, high)
    assert column_test(kind, comparison("c", "=", inside)).may_match({}, stats)
    assert not column_test(kind, comparison("c", "=", outside)).may_match({}, stats)


def mapped(name, physical, number, kind="long"):
    kind = PrimitiveType(kind) if isinstance(kind, str) else kind
    return StructField(name, kind, metadata={PHYSICAL_NAME: physical, FIELD_ID: number})


SWAPPED = TableSchema(
    logical=StructType(
        (
            mapped("a", "b", 1),
            mapped("b", "a", 2),
            mapped("st", "s", 3, StructType((mapped("x", "y", 4), mapped("y", "x", 5)))),
            mapped("day", "col-1", 6, "date"),
        )
    ),
    partition_columns=("day",),
    mode=MappingMode.NAME,
)


@pytest.mark.parametrize(
    ("predicate", "is_kept"),
    [
        (Comparison(column=("a",), operator=Operator.EQ, literal=20), True),
        (Comparison(column=("a",), operator=Operator.EQ, literal=10), False),
        (Comparison(column=("B",), operator=Operator.EQ, literal=10), True),
        (Comparison(column=("st", "X"), operator=Operator.EQ, literal=40), True),
        (Comparison(column=("st", "x"), operator=Operator.EQ, literal=30), False),
        (Comparison(column=("day",), operator=Operator.EQ, literal=date(2026, 1, 1)), True),
        (Comparison(column=("day",), operator=Operator.EQ, literal=date(2026, 1, 2)), False),
    ],
)
def test_statistics_and_partition_values_are_found_by_physical_names(predicate, is_kept):
    bounds = {"a": 10, "b": 20, "s": {"x": 30, "y": 40}}
    null_counts = {"a": 0, "b": 0, "s": {"x": 0, "y": 0}}
    stats = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": null_counts})
    files = files_table(({"col-1": "2026-01-01"}, stats))
    assert prune(files, predicate, SWAPPED).num_rows == (1 if is_kept else 0)


@pytest.mark.parametrize("number", ["1E9999999", "-1E9999999", "NaN", "-Infinity", "1" * 5000])
def test_a_number_outside_the_type_is_not_a_bound(number):
    stats = '{"minValues":{"m":%s,"d":%s},"maxValues":{"m":%s,"d":%s}}' % ((number,) * 4)
    for predicate in (comparison("m", "=", Decimal(0)), comparison("d", "=", 0.0)):
        assert file_test(predicate).may_match(NO_PARTITION, stats)


def test_a_decimal_that_was_clamped_to_64_bits_is_not_a_bound():
    beyond = comparison("m", "=", Decimal("999999999999999999.00") * 100)
    assert file_test(beyond).may_match(NO_PARTITION, stats_with("m", 0, 2**63 - 1))
    assert file_test(comparison("m", "<", -(10**19))).may_match(NO_PARTITION, stats_with("m", -(2**63), 0))


FILES = files_table(
    ({"p": "a", "q": "2026-01-01"}, stats_with("i", 1, 2)),
    ({"p": "a", "q": "2026-01-02"}, stats_with("i", 3, 4)),
    ({"p": "b", "q": "2026-01-01"}, stats_with("i", 5, 6)),
    ({"p": None, "q": ""}, None),
    ({"p": "a", "q": "2026-01-01"}, stats_with("i", 7, 8)),
)


@pytest.mark.parametrize(
    ("predicate", "paths"),
    [
        (comparison("p", "=", "a"), "f0 f1 f4"),
        (And((comparison("p", "=", "a"), comparison("q", "=", date(2026, 1, 1)))), "f0 f4"),
        (And((comparison("p", "=", "a"), comparison("i", ">", 2))), "f1 f4"),
        (Or((comparison("p", "=", "b"), comparison("i", "<", 2))), "f0 f2 f3"),
        (IsNull(("q",)), "f3"),
        (Not(comparison("p", "=", "a")), "f2"),
        (Constant(None), ""),
        (comparison("p", "=", "zz"), ""),
        (Unknown(frozenset({("p",)})), "f0 f1 f2 f3 f4"),
    ],
)
def test_pruning_keeps_the_files_that_may_match_in_their_order(predicate, paths):
    assert prune(FILES, predicate, TABLE)["path"].to_pylist() == paths.split()


def test_pruning_with_a_true_predicate_returns_the_same_table():
    assert prune(FILES, Constant(True), TABLE) is FILES


def test_pruning_no_files_returns_no_files():
    assert prune(FILES.slice(0, 0), comparison("p", "=", "a"), TABLE).num_rows == 0


def test_pruning_works_on_a_table_of_several_chunks():
    doubled = pa.concat_tables([FILES, FILES])
    assert prune(doubled, And((comparison("p", "=", "b"), comparison("i", ">", 2))), TABLE).num_rows == 2


class CountingText(str):
    """A string that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __lt__(self, other):
        CountingText.comparisons += 1
        return str.__lt__(self, other)

    def __gt__(self, other):
        CountingText.comparisons += 1
        return str.__gt__(self, other)


def test_a_file_is_compared_with_few_values_of_a_long_list():
    test = file_test(In(("s",), tuple(CountingText(f"{number:036}") for number in range(4096))))
    CountingText.comparisons = 0
    assert test.may_match(NO_PARTITION, stats_with("s", f"{5:036}", f"{5:036}"))
    assert not test.may_match(NO_PARTITION, stats_with("s", f"{5:036}x", f"{5:036}y"))
    assert CountingText.comparisons < 50


COMMON_STATISTICS = [
    ("long", In(("c",), (7, 3)), 4, 5, False),
    ("long", In(("c",), (7, 3)), 1, 9, True),
    ("double", comparison("c", "<", 1.0), 1.5, 2, False),
    ("double", comparison("c", ">", 5.0), 1.5, "NaN", True),
    ("float", In(("c",), (0.25, math.nan)), 1.5, 2.5, True),
    ("boolean", comparison("c", "=", True), False, False, False),
    ("date", comparison("c", "<", date(2026, 1, 1)), "2026-01-02", "2026-01-03", False),
    ("timestamp", comparison("c", ">", datetime(2026, 1, 1, tzinfo=UTC)), "2025-01-01T00:00:00.000Z",
     "2026-01-01T00:00:00.000Z", True),
    ("timestamp_ntz", In(("c",), (EPOCH,)), "1970-01-01T00:00:00.001", "1970-01-02T00:00:00.000", False),
    ("string", In(("c",), ("b", "x" * 32 + "y")), "c", "x" * 32 + "\x7f", True),
    ("string", Not(StartsWith(("c",), "xy")), "xya", "xyb", False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "predicate", "low", "high", "is_kept"), COMMON_STATISTICS)
def test_common_statistics_of_all_files_are_evaluated_together(monkeypatch, kind, predicate, low, high, is_kept):
    def fail(*_arguments):
        pytest.fail("a file was tested alone")

    monkeypatch.setattr(FileTest, "may_match", fail)
    files = files_table(*[({}, stats_with("c", low, high)), ({}, None)] * 3)
    table = TableSchema(logical=StructType((StructField("c", PrimitiveType(kind)),)))
    assert prune(files, predicate, table)["path"].to_pylist() == [
        name for name in files["path"].to_pylist() if is_kept or int(name[1:]) % 2
    ]


def test_unusual_statistics_of_a_file_do_not_change_the_answers_for_other_files():
    common = [({}, stats_with("i", number, number)) for number in range(300)]
    unusual = [
        ({}, "not json"),
        ({}, '{"minValues":{"i":5}}}{"minValues":{"i":7}'),
        ({}, stats_with("i", 2**70, 2**70)),
        ({}, stats_with("i", "1", "4")),
        ({}, stats_with("i", 1.5, 1.5)),
        ({}, "[]"),
        ({}, ""),
    ]
    files = files_table(*common[:100], *unusual, *common[100:])
    table = TableSchema(logical=StructType((StructField("i", PrimitiveType("long")),)))
    predicate = In(("i",), (17, 250, 2**70))
    kept_stats = prune(files, predicate, table)["stats"].to_pylist()
    inconclusive = [stats for _, stats in unusual]
    assert kept_stats == [common[17][1], *inconclusive, common[250][1]]
    assert prune(files, In(("i",), (17, 250)), table)["stats"].to_pylist() == [
        stats for stats in kept_stats if stats != unusual[2][1]
    ]


@pytest.mark.parametrize("kind", [DecimalType(12, 2), DecimalType(38, 10)])
def test_decimals_of_all_files_are_evaluated_together_and_keep_every_matching_file(monkeypatch, kind):
    table = TableSchema(logical=StructType((StructField("c", kind),)))
    bounds = ((1, 4.25), (4.26, 5), (-3, 2**63 - 1), (-(2**63), -1))
    files = files_table(*(({}, stats_with("c", low, high)) for low, high in bounds))
    above = comparison("c", ">", Decimal("4.25"))
    test = FileTest(above, table)
    rows = files.select(["path", "stats"]).to_pylist()
    expected = [row["path"] for row in rows if test.may_match({}, row["stats"])]
    monkeypatch.setattr(FileTest, "may_match", lambda *_arguments: pytest.fail("a file was tested alone"))
    assert prune(files, above, table)["path"].to_pylist() == expected


SETS = range(1, (TRUE | FALSE | NULL) + 1)
TRUTH_OF = {TRUE: True, FALSE: False, NULL: None}


@pytest.mark.parametrize("connective", [And, Or])
def test_sets_of_truth_values_combine_like_their_members(connective):
    left, right = IsNull(("left",)), IsNull(("right",))
    for sets in itertools.product(SETS, SETS):
        pairs = itertools.product(*([truth for mask, truth in TRUTH_OF.items() if mask & truths] for truths in sets))
        expected = {
            conjunction(pair) if connective is And else negation(conjunction([*map(negation, pair)])) for pair in pairs
        }
        outcomes = dict(zip((left, right), sets, strict=True))
        outcome_arrays = {leaf: Masks(pa.array([mask], pa.uint8())) for leaf, mask in outcomes.items()}
        predicate = connective((left, right))
        for masks in (outcomes, outcome_arrays):
            assert truths_in(combine_outcomes(predicate, masks.__getitem__)) == expected
            assert truths_in(combine_outcomes(Not(predicate), masks.__getitem__)) == set(map(negation, expected))


def truths_in(mask):
    value = mask if isinstance(mask, int) else mask.array[0].as_py()
    return {truth for bit, truth in TRUTH_OF.items() if value & bit}
