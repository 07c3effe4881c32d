"""The values of identity columns: the next values, and the end of the range."""

from __future__ import annotations

import pytest

from deltalite.errors import ConstraintViolationError, CorruptLogError
from deltalite.protocol.column_rules import column_rules
from deltalite.protocol.identity_columns import IdentityColumn, identity_columns, with_high_water_marks
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.txn.winners import NoConflict, Winner, judge
from tests.unit.builders import PROTOCOL, SCHEMA, add, metadata, proposal
from tests.unit.protocol.builders import legacy, protocol_with

LONG_MAX = 2**63 - 1


def identity_schema(kind="long", **identity_metadata):
    keys = {"start": 1, "step": 1, "allowExplicitInsert": False, **identity_metadata}
    values = {f"delta.identity.{key}": value for key, value in keys.items() if value is not None}
    return StructType((*SCHEMA.fields, StructField("n", PrimitiveType(kind), metadata={"mine": "x", **values})))


@pytest.mark.parametrize(
    ("start", "step", "high_water_mark", "first", "fifth"),
    [
        (1, 1, None, 1, 5),
        (1, 1, 7, 8, 12),
        (10, 5, None, 10, 30),
        (10, 5, 20, 25, 45),
        (10, 5, 22, 25, 45),  # another engine moved the high water mark to a value outside the series
        (10, 5, 3, 10, 30),  # the high water mark is before the start
        (-1, -2, None, -1, -9),
        (-1, -2, -5, -7, -15),
        (-1, -2, -6, -7, -15),
        (-1, -2, 4, -1, -9),
        (0, 1, 0, 1, 5),
    ],
)
def test_new_values_continue_the_series_beyond_the_high_water_mark(start, step, high_water_mark, first, fifth):
    column = IdentityColumn(name="n", start=start, step=step, high_water_mark=high_water_mark)
    assert (column.next_value, column.last_of_next(1), column.last_of_next(5)) == (first, first, fifth)


@pytest.mark.parametrize(
    ("high_water_mark", "step", "remaining"), [(LONG_MAX - 3, 1, 3), (-(2**63) + 3, -1, 3), (LONG_MAX - 10, 4, 2)]
)
def test_a_series_ends_before_it_overflows(high_water_mark, step, remaining):
    column = IdentityColumn(name="n", start=0, step=step, high_water_mark=high_water_mark)
    column.last_of_next(remaining)
    with pytest.raises(ConstraintViolationError, match="'n' has no values left"):
        column.last_of_next(remaining + 1)


def test_a_new_high_water_mark_changes_only_the_metadata_of_its_column():
    (column,) = identity_columns(identity_schema(start=5, step=5, highWaterMark=10, allowExplicitInsert=True))
    assert column == IdentityColumn(name="n", start=5, step=5, high_water_mark=10, allows_explicit=True)
    new_schema = with_high_water_marks(identity_schema(start=5, step=5, highWaterMark=10), {"n": 25})
    assert new_schema == identity_schema(start=5, step=5, highWaterMark=25)


def test_identity_columns_apply_if_the_protocol_supports_them():
    protocols = (legacy(1, 5), legacy(1, 6), protocol_with(), protocol_with("identityColumns"))
    identities = [column_rules(protocol, metadata(schema=identity_schema())).identities for protocol in protocols]
    assert [len(columns) for columns in identities] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "arguments",
    [{"step": 0}, {"step": None}, {"start": None}, {"start": "1"}, {"start": True}, {"start": LONG_MAX + 1},
     {"allowExplicitInsert": None}, {"highWaterMark": "5"}, {"kind": "integer"}],
    ids=str,
)  # fmt: skip
def test_the_error_names_a_column_with_malformed_identity_metadata(arguments):
    with pytest.raises(CorruptLogError, match="'n'"):
        identity_columns(identity_schema(**arguments))


def test_a_winning_commit_with_a_new_high_water_mark_does_not_conflict_with_a_commit_that_needs_no_values():
    before, after = metadata(schema=identity_schema()), metadata(schema=identity_schema(highWaterMark=9))
    with_new_mark = Winner(version=5, actions=[after, add("w")])
    assert isinstance(judge(proposal(4, add("n"), base=(PROTOCOL, before)), with_new_mark, "mine"), NoConflict)
    current = proposal(4, add("n"), metadata(schema=identity_schema(highWaterMark=4)), base=(PROTOCOL, before))
    assert not isinstance(judge(current, with_new_mark, "mine"), NoConflict)
    with_new_step = Winner(version=5, actions=[metadata(schema=identity_schema(step=2))])
    assert not isinstance(judge(proposal(4, add("n"), base=(PROTOCOL, before)), with_new_step, "mine"), NoConflict)
