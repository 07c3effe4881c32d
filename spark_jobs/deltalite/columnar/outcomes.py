"""What a predicate can be for the rows of one file: a set out of TRUE, FALSE and NULL.

Each column of a file is described by bounds that hold for all its rows. From them the set of possible truths is
computed bottom up: AND, OR and NOT combine sets as Kleene's logic combines values, so a negation needs no rewriting
and is never wrong. Predicates are bound (`binding.py`), so that bounds and literals compare. The set may be too
large, never too small: a file is safely skipped when TRUE is not in it, and a set of one element is the answer for
every row. Nothing here knows where bounds come from; `file_facts.py` reads them from the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, assert_never

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
    Path,
    Predicate,
    StartsWith,
    Unknown,
)

# A set of truths, as a mask: a table may have a million files, and an enum.Flag costs a microsecond an operation.
Outcomes = int
TRUE: Final = 1
FALSE: Final = 2
NULL: Final = 4
ANY: Final = TRUE | FALSE | NULL

_TRUTHS = {TRUE: True, FALSE: False, NULL: None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """What holds for a column in every row of a file.

    `low` and `high` bound the values that are neither null nor NaN, inclusive; None is no bound. `high_may_be_cut` says
    that a string `high` may be only the beginning of the true one. A file whose rows all have one value has it as both
    bounds, NaN too, and then `may_be_nan` is False.
    """

    low: Any = None
    high: Any = None
    high_may_be_cut: bool = False
    may_be_nan: bool = False
    may_be_null: bool = True
    may_be_value: bool = True


UNKNOWN_COLUMN = ColumnFacts()
FactsOf = Callable[[Path], ColumnFacts]

# Which of "less", "equal", "greater" make each comparison TRUE, for two values that are not null.
_LESS, _EQUAL, _GREATER = 1, 2, 4
_TRUE_FOR = {
    Operator.EQ: _EQUAL,
    Operator.NULL_SAFE_EQ: _EQUAL,
    Operator.NOT_EQ: _LESS | _GREATER,
    Operator.LT: _LESS,
    Operator.LT_EQ: _LESS | _EQUAL,
    Operator.GT: _GREATER,
    Operator.GT_EQ: _GREATER | _EQUAL,
}


def _kleene_and(left: bool | None, right: bool | None) -> Outcomes:  # noqa: FBT001  truths, not options
    if left is False or right is False:
        return FALSE
    return NULL if left is None or right is None else TRUE


def _all_ands(left: Outcomes, right: Outcomes) -> Outcomes:
    met = 0
    for one, truth in _TRUTHS.items():
        for other, other_truth in _TRUTHS.items():
            if left & one and right & other:
                met |= _kleene_and(truth, other_truth)
    return met


_NOT = tuple((own & NULL) | (FALSE if own & TRUE else 0) | (TRUE if own & FALSE else 0) for own in range(ANY + 1))
_AND = tuple(tuple(_all_ands(left, right) for right in range(ANY + 1)) for left in range(ANY + 1))


def outcomes(predicate: Predicate, facts_of: FactsOf) -> Outcomes:  # noqa: C901, PLR0912  one arm a kind
    """The truths that a bound predicate may have for the rows of a file; `facts_of` describes a column by its path."""
    match predicate:
        case Constant(truth):
            return NULL if truth is None else _mask(true=truth, false=not truth)
        case Unknown():
            return ANY
        case Not(child):
            return _NOT[outcomes(child, facts_of)]
        case And(children):
            all_of = TRUE
            for child in children:
                all_of = _AND[all_of][outcomes(child, facts_of)]
            return all_of
        case Or(children):
            none_of = TRUE
            for child in children:
                none_of = _AND[none_of][_NOT[outcomes(child, facts_of)]]
            return _NOT[none_of]
        case IsNull(column):
            return _null_test(facts_of(column))
        case IsNotNull(column):
            return _NOT[_null_test(facts_of(column))]
        case Comparison(column=column, operator=operator, literal=literal):
            return _comparison(facts_of(column), operator, literal)
        case In(column, values):
            return _membership(facts_of(column), values)
        case StartsWith(column, prefix):
            return _starts_with(facts_of(column), prefix)
        case _:
            assert_never(predicate)


def _mask(*, true: bool, false: bool, null: bool = False) -> Outcomes:
    return (TRUE if true else 0) | (FALSE if false else 0) | (NULL if null else 0)


def _null_test(facts: ColumnFacts) -> Outcomes:
    return _mask(true=facts.may_be_null, false=facts.may_be_value)


def _comparison(facts: ColumnFacts, operator: Operator, literal: Any) -> Outcomes:
    null_safe = operator is Operator.NULL_SAFE_EQ
    if literal is None:
        return _null_test(facts) if null_safe else NULL
    possible = _relations(facts, literal) if facts.may_be_value else 0
    wanted = _TRUE_FOR[operator]
    return _mask(
        true=bool(possible & wanted),
        false=bool(possible & ~wanted) or (null_safe and facts.may_be_null),
        null=facts.may_be_null and not null_safe,
    )


def _membership(facts: ColumnFacts, values: tuple[Any, ...]) -> Outcomes:
    if not values:
        return FALSE
    with_null = None in values
    literals = [value for value in values if value is not None]
    possible = [_relations(facts, value) for value in _reachable(literals, facts)] if facts.may_be_value else []
    equals_one_always = _EQUAL in possible
    return _mask(
        true=any(relations & _EQUAL for relations in possible),
        false=facts.may_be_value and not equals_one_always and not with_null,
        null=facts.may_be_null or (with_null and not equals_one_always),
    )


def _reachable(literals: list[Any], facts: ColumnFacts) -> list[Any]:
    """The literals that are not plainly out of bounds, so that a long list costs little a file."""
    low, high = facts.low, facts.high
    if low is None or high is None or facts.high_may_be_cut or isinstance(low, float):
        return literals
    return [literal for literal in literals if low <= literal <= high]


def _relations(facts: ColumnFacts, literal: Any) -> int:
    """How values within the bounds can stand to the literal, as a mask of less, equal and greater."""
    literal_is_nan = _is_nan(literal)
    reaches_down = facts.low is None or _order(facts.low, literal) <= 0
    reaches_up = facts.high is None or _order(facts.high, literal) >= 0 or _may_be_cut_below(facts, literal)
    less = facts.low is None or _order(facts.low, literal) < 0
    equal = (reaches_down and reaches_up) or (facts.may_be_nan and literal_is_nan)
    greater = (
        facts.high is None
        or _order(facts.high, literal) > 0
        or _may_be_cut_below(facts, literal)
        or (facts.may_be_nan and not literal_is_nan)
    )
    return (_LESS if less else 0) | (_EQUAL if equal else 0) | (_GREATER if greater else 0)


def _starts_with(facts: ColumnFacts, prefix: str) -> Outcomes:
    low, high, length = facts.low, facts.high, len(prefix)
    within = (low is None or low[:length] <= prefix) and (
        high is None or high[:length] >= prefix or _may_be_cut_below(facts, prefix)
    )
    always = low is not None and high is not None and low.startswith(prefix) and high.startswith(prefix)
    return _mask(
        true=facts.may_be_value and within,
        false=facts.may_be_value and not always,
        null=facts.may_be_null,
    )


def _may_be_cut_below(facts: ColumnFacts, literal: Any) -> bool:
    """Whether `high` may be the beginning of a longer value at or above the literal.

    Delta pads a cut maximum so that it stays above; this guards against a writer that only cuts.
    """
    return facts.high_may_be_cut and literal.startswith(facts.high)


def _order(left: Any, right: Any) -> int:
    """Less (-1), equal (0) or greater (1), as Spark orders: NaN equals NaN and is above everything; -0.0 equals 0.0."""
    if isinstance(left, float) or isinstance(right, float):
        left_nan, right_nan = _is_nan(left), _is_nan(right)
        if left_nan or right_nan:
            return left_nan - right_nan
    return int(left > right) - int(left < right)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
