"""The possible truth values of a predicate for the rows of a file: a subset of TRUE, FALSE and NULL.

Bounds describe each column for all rows of a file. The set of possible truth values follows from the bounds, bottom
up: AND, OR and NOT combine sets as Kleene's logic combines values. Predicates are bound (`binding.py`), so bounds and
literals are comparable. The set may be too large, but never too small. A file without TRUE in the set is safe to skip.
If the set has one element, this truth value holds for every row.

The rules are operations on bit masks, so they apply to one file (`ColumnFacts`) and to many files at once
(`FactColumn` in `columnar/skipping`). `columnar/skipping` reads the bounds from the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, assert_never

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Not,
    Operator,
    Or,
    Path,
    Predicate,
    StartsWith,
    Unknown,
    is_nan,
)

if TYPE_CHECKING:
    from deltalite.columnar.predicates.masks import Masks


# A set of truth values as a mask. An enum.Flag would take a microsecond per operation, and a table may have a million
# files.
Outcomes = int
TRUE: Final = 1
FALSE: Final = 2
NULL: Final = 4
ANY: Final = TRUE | FALSE | NULL

Mask: TypeAlias = "int | Masks"
"""A mask for one file, or a mask per file for many files. As the answer to a question, `ANY` is yes and 0 is no."""
Relations: TypeAlias = tuple[Mask, Mask, Mask]
"""Whether a value may be less than a literal, equal to it, and greater."""


class Facts(Protocol):
    """The facts about a column in one file, or in each of many files."""

    @property
    def nulls(self) -> Mask:
        """Whether a row may be null."""

    @property
    def values(self) -> Mask:
        """Whether a row may have a value."""

    def relations(self, literal: Any) -> Relations:
        """Return how the values may compare with a literal that is not null."""

    def nearest_relations(self, literals: Sequence[Any]) -> Sequence[Relations]:
        """Return `relations(literal)` for each literal that decides the result of `In`.

        The relations show whether a value may equal one of `literals`, and whether every value equals one of them. No
        literal is null. `literals` are sorted as in a bound `In`.
        """

    def prefix_facts(self, length: int) -> Facts:
        """Return the facts about the first `length` characters of the strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """The facts about a column that hold for every row of a file.

    `low` and `high` are inclusive bounds of the values that are neither null nor NaN; None means no bound. With
    `high_may_be_cut`, a string `high` may be only a prefix of the true maximum. If all rows have the same value, both
    bounds are that value, even NaN, and `may_be_nan` is False.
    """

    low: Any = None
    high: Any = None
    high_may_be_cut: bool = False
    may_be_nan: bool = False
    may_be_null: bool = True
    may_be_value: bool = True

    @property
    def nulls(self) -> Mask:
        """Whether a row may be null."""
        return ANY if self.may_be_null else 0

    @property
    def values(self) -> Mask:
        """Whether a row may have a value."""
        return ANY if self.may_be_value else 0

    def relations(self, literal: Any) -> Relations:
        """Return how the values may compare with a literal that is not null."""
        literal_is_nan = is_nan(literal)
        from_low = -1 if self.low is None else _order(self.low, literal)
        from_high = 1 if self.high is None or self._may_be_cut_below(literal) else _order(self.high, literal)
        equal = from_low <= 0 <= from_high or (self.may_be_nan and literal_is_nan)
        greater = from_high > 0 or (self.may_be_nan and not literal_is_nan)
        return ANY if from_low < 0 else 0, ANY if equal else 0, ANY if greater else 0

    def nearest_relations(self, literals: Sequence[Any]) -> Sequence[Relations]:
        """Return `relations` to the first literal that is not below `low`, and to NaN.

        Earlier literals are below the bounds. If the first literal is above `high`, later literals are too, even if
        `high` is truncated: in the order, the strings that begin with `high` directly follow it.
        """
        literal_of_nan = literals[-1:] if literals and is_nan(literals[-1]) else ()
        if is_nan(self.low):
            return [self.relations(literal) for literal in literal_of_nan]
        first = 0 if self.low is None else bisect_left(literals, self.low)
        return [self.relations(literal) for literal in (*literals[first : first + 1], *literal_of_nan)]

    def prefix_facts(self, length: int) -> ColumnFacts:
        """Return the facts about the first `length` characters of the strings; a bound of that length is exact."""
        low = None if self.low is None else self.low[:length]
        if self.high is None:
            return replace(self, low=low)
        may_be_cut = self.high_may_be_cut and len(self.high) < length
        return replace(self, low=low, high=self.high[:length], high_may_be_cut=may_be_cut)

    def _may_be_cut_below(self, literal: Any) -> bool:
        """Whether `high` may be the prefix of a longer value at or above the literal.

        Delta appends a character to a truncated maximum so that it stays an upper bound; other writers may not.
        """
        return self.high_may_be_cut and bool(literal.startswith(self.high))


UNKNOWN_COLUMN = ColumnFacts()
FactsOf = Callable[[Path], ColumnFacts]

# Which of "less", "equal" and "greater" make each comparison TRUE, for two values that are not null.
_TRUE_FOR = {
    Operator.EQ: (False, True, False),
    Operator.NULL_SAFE_EQ: (False, True, False),
    Operator.NOT_EQ: (True, False, True),
    Operator.LT: (True, False, False),
    Operator.LT_EQ: (True, True, False),
    Operator.GT: (False, False, True),
    Operator.GT_EQ: (False, True, True),
}


def outcomes(predicate: Predicate, facts_of: FactsOf) -> Outcomes:
    """Return the truth values that a bound predicate may have in a file; `facts_of` returns a column's facts."""
    possible = combine_outcomes(predicate, lambda leaf: leaf_outcomes(leaf, facts_of(leaf.column)))
    assert isinstance(possible, int)  # noqa: S101  the facts are those of one file
    return possible


def combine_outcomes(predicate: Predicate, outcomes_of_leaf: Callable[[Leaf], Mask]) -> Mask:
    """Return the truth values that a predicate may have, from the truth values of its leaves."""
    match predicate:
        case Constant(truth):
            return NULL if truth is None else TRUE if truth else FALSE
        case Unknown():
            return ANY
        case Not(child):
            return _negation(combine_outcomes(child, outcomes_of_leaf))
        case And(children):
            return _conjunction(combine_outcomes(child, outcomes_of_leaf) for child in children)
        case Or(children):
            return _negation(_conjunction(_negation(combine_outcomes(child, outcomes_of_leaf)) for child in children))
        case IsNull() | IsNotNull() | Comparison() | In() | StartsWith():
            return outcomes_of_leaf(predicate)
        case _:
            assert_never(predicate)


def leaf_outcomes(leaf: Leaf, facts: Facts) -> Mask:
    """Return the truth values that a bound predicate on one column may have."""
    match leaf:
        case IsNull():
            return _null_test(facts)
        case IsNotNull():
            return _negation(_null_test(facts))
        case Comparison(operator=operator, literal=literal):
            return _comparison(facts, operator, literal)
        case In(values=values):
            return _membership(facts, values)
        case StartsWith(prefix=prefix):
            return _comparison(facts.prefix_facts(len(prefix)), Operator.EQ, prefix)
        case _:
            assert_never(leaf)


def _negation(possible: Mask) -> Mask:
    return possible & NULL | (possible & TRUE) << 1 | (possible & FALSE) >> 1


def _conjunction(possible: Iterable[Mask]) -> Mask:
    """Return the AND: FALSE if one child is FALSE, TRUE if all are TRUE, else NULL."""
    result: Mask = TRUE
    for child in possible:
        # The AND may be NULL if one side may be NULL, and the other side may be TRUE or NULL.
        result_not_false, child_not_false = result | (result & TRUE) << 2, child | (child & TRUE) << 2
        null = result & child_not_false | child & result_not_false
        result = result & child & TRUE | (result | child) & FALSE | null & NULL
    return result


def _null_test(facts: Facts) -> Mask:
    return facts.nulls & TRUE | facts.values & FALSE


def _comparison(facts: Facts, operator: Operator, literal: Any) -> Mask:
    is_null_safe = operator is Operator.NULL_SAFE_EQ
    if literal is None:
        return _null_test(facts) if is_null_safe else NULL
    true_relations: Mask = 0
    false_relations: Mask = 0
    for relation, makes_true in zip(facts.relations(literal), _TRUE_FOR[operator], strict=True):
        if makes_true:
            true_relations = true_relations | relation
        else:
            false_relations = false_relations | relation
    outcome_of_nulls = facts.nulls & (FALSE if is_null_safe else NULL)
    return facts.values & (true_relations & TRUE | false_relations & FALSE) | outcome_of_nulls


def _membership(facts: Facts, values: tuple[Any, ...]) -> Mask:
    if not values:
        return FALSE
    literals = values[:-1] if values[-1] is None else values
    outcome_if_unequal = FALSE if len(literals) == len(values) else NULL
    may_equal: Mask = 0
    always_equals: Mask = 0
    for less, equal, greater in facts.nearest_relations(literals):
        may_equal = may_equal | equal
        always_equals = always_equals | equal & _inverse(less | greater)
    return facts.values & (may_equal & TRUE | _inverse(always_equals) & outcome_if_unequal) | facts.nulls & NULL


def _inverse(answer: Mask) -> Mask:
    """Return the opposite answer: 0 for `ANY`, and `ANY` for 0."""
    return answer ^ ANY


def _order(left: Any, right: Any) -> int:
    """Compare as Spark does: -1, 0 or 1. NaN equals NaN and is above every number; -0.0 equals 0.0."""
    if isinstance(left, float) or isinstance(right, float):
        left_is_nan, right_is_nan = is_nan(left), is_nan(right)
        if left_is_nan or right_is_nan:
            return left_is_nan - right_is_nan
    return int(left > right) - int(left < right)
