"""The statistics of a file that gets a deletion vector keep their digits, and their bounds become wide."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.statistics.wide_bounds import with_wide_bounds

DIGITS = "1234567890123456789012345678.0123456789"


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, '{"numRecords":7,"tightBounds":false}'),
        ("", '{"numRecords":7,"tightBounds":false}'),
        ("{}", '{"numRecords":7,"tightBounds":false}'),
        ("[1]", '{"numRecords":7,"tightBounds":false}'),
        ("{broken", '{"numRecords":7,"tightBounds":false}'),
        ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", '{"numRecords":7,"tightBounds":false}'),
        ('{"numRecords":7,"tightBounds":true}', '{"numRecords":7,"tightBounds":false}'),
        (
            ' { "numRecords" : null , "x" : { "a" : [1 , "}"] } } ',
            '{"numRecords":7,"x":{ "a" : [1 , "}"] },"tightBounds":false}',
        ),
        ('{"minValues":{"d":' + DIGITS + "}}", '{"minValues":{"d":' + DIGITS + '},"numRecords":7,"tightBounds":false}'),
        ('{"a\\"b":-1.50E+2,"numRecords":3}', '{"a\\"b":-1.50E+2,"numRecords":7,"tightBounds":false}'),
    ],
    ids=range(10),
)  # fmt: skip
def test_values_keep_their_text(stats, expected):
    assert with_wide_bounds(stats, 7) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(), json_values, max_size=5),
    st.integers(0, 2**40),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_wide_bounds_change_only_the_row_count_and_the_flag(stats, count, indent, ascii_only):
    text = json.dumps(stats, indent=indent, ensure_ascii=ascii_only)
    new_stats = json.loads(with_wide_bounds(text, count))
    assert new_stats == stats | {"numRecords": count, "tightBounds": False}
