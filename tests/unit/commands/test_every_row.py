"""The library recognizes a predicate that is true for every row, after Spark has folded constants."""

from __future__ import annotations

import pytest

from deltalite.columnar.predicates.predicate import And, Constant, IsNotNull, IsNull, Or, Predicate, Unknown
from deltalite.commands.common.every_row import is_always_true
from deltalite.protocol.schema import PrimitiveType, StructField, StructType

SCHEMA = StructType(
    (
        StructField("id", PrimitiveType("long"), nullable=False),
        StructField("x", PrimitiveType("long"), nullable=True),
    )
)
TRUE, HAS_ID, HAS_X, LACKS_X = Constant(truth=True), IsNotNull(("id",)), IsNotNull(("x",)), IsNull(("x",))
UNCERTAIN = Unknown(frozenset({("x",)}))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (TRUE, True),
        (Constant(truth=None), False),
        (HAS_ID, True),  # Spark rewrites `id = id` to this predicate
        (HAS_X, False),
        (IsNotNull(("id", "member")), False),
        (IsNotNull(("gone",)), False),
        (Or((LACKS_X, HAS_X)), True),
        (Or((LACKS_X, IsNotNull(("y",)))), False),
        (Or((UNCERTAIN, TRUE)), True),
        (Or((UNCERTAIN, LACKS_X)), False),
        (And((HAS_ID, Or((HAS_X, LACKS_X)))), True),
        (And((TRUE, HAS_X)), False),
    ],
)
def test_a_predicate_that_is_true_for_every_row_is_recognized(predicate: Predicate, expected: bool) -> None:
    assert is_always_true(predicate, SCHEMA) is expected
