"""The facts about a column in many files: `predicates.outcomes.ColumnFacts` as Arrow columns.

Arrow compares the bounds with literals for all files at once. A binary search finds the first literal that is not below
a minimum. Python decides only whether a literal begins with a maximum that may be truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.masks import Masks
from deltalite.columnar.predicates.outcomes import ANY, Relations
from deltalite.columnar.predicates.predicate import Comparison, In, IsNotNull, IsNull, Leaf, StartsWith, is_nan
from deltalite.columnar.predicates.row_filter import exact_values

# Arrow compares this many characters of two strings before Python compares the whole.
_HEAD = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FactColumn:
    """The facts about a column; each array has one element per file.

    `low` and `high` have the same type and no NaN; null means no bound. `high_may_be_cut` is as in `ColumnFacts`; it is
    None if no maximum may be truncated. `may_be_nan` applies to all files. `nulls` and `values` are as in
    `predicates.outcomes.Facts`. Literals must fit the type (`predicates.row_filter.exact_values`).
    """

    low: pa.Array
    high: pa.Array
    high_may_be_cut: pa.BooleanArray | None
    may_be_nan: bool
    nulls: Masks
    values: Masks

    def relations(self, literal: Any) -> Relations:
        """Return how the values may compare with a literal that is not null."""
        if is_nan(literal):
            no_maximum = _mask_where(pc.is_null(self.high))
            return ANY, ANY if self.may_be_nan else no_maximum, no_maximum
        [typed_literal] = self._typed_literals([literal])
        return self._relations(typed_literal)

    def nearest_relations(self, literals: Sequence[Any]) -> Sequence[Relations]:
        """Return `relations` to the first literal that is not below `low`, and to NaN.

        `ColumnFacts.nearest_relations` explains this choice.
        """
        has_nan = bool(literals) and is_nan(literals[-1])
        numbers = literals[:-1] if has_nan else literals
        relations = [self.relations(literals[-1])] if has_nan else []
        if numbers:
            typed_literals = self._typed_literals(numbers)
            relations.append(self._relations(typed_literals.take(_first_not_below(typed_literals, self.low))))
        return relations

    def prefix_facts(self, length: int) -> FactColumn:
        """Return the facts about the first `length` characters of the strings; see `ColumnFacts.prefix_facts`."""
        low, high = (pc.utf8_slice_codeunits(bounds, 0, length) for bounds in (self.low, self.high))
        may_be_cut = self.high_may_be_cut
        if may_be_cut is not None:
            may_be_cut = pc.and_(may_be_cut, pc.less(pc.utf8_length(self.high), length))
        return replace(self, low=low, high=high, high_may_be_cut=may_be_cut)

    def _typed_literals(self, literals: Sequence[Any]) -> pa.Array:
        array = exact_values(literals, self.low.type)
        assert array is not None, f"{literals!r:.80} does not fit into {self.low.type}"  # noqa: S101  the class requires it
        return array

    def _relations(self, literals: pa.Scalar | pa.Array) -> Relations:
        """Return how the values may compare with a literal, or with one per file; no value equals a null literal."""
        no_low, no_high = pc.is_null(self.low), pc.is_null(self.high)
        less = pc.or_kleene(no_low, pc.less(self.low, literals))
        from_low = pc.or_kleene(no_low, pc.less_equal(self.low, literals))
        greater = pc.or_kleene(no_high, pc.greater(self.high, literals))
        to_high = pc.or_kleene(no_high, pc.greater_equal(self.high, literals))
        if self.high_may_be_cut is not None:
            extended = _begin_with(literals, self.high, pc.and_kleene(self.high_may_be_cut, pc.invert(greater)))
            greater, to_high = pc.or_kleene(greater, extended), pc.or_kleene(to_high, extended)
        equal = pc.and_kleene(pc.is_valid(literals), pc.and_kleene(from_low, to_high))
        return _mask_where(less), _mask_where(equal), ANY if self.may_be_nan else _mask_where(greater)


def can_compare(leaf: Leaf, data_type: pa.DataType) -> bool:
    """Whether the literals of a bound predicate fit `data_type`, the type of the column's bounds."""
    match leaf:
        case Comparison(literal=literal):
            literals: Sequence[Any] = (literal,)
        case In(values=values):
            literals = values
        case IsNull() | IsNotNull() | StartsWith():
            return True
        case _:
            assert_never(leaf)
    numbers = [literal for literal in literals if literal is not None and not is_nan(literal)]
    return exact_values(numbers, data_type) is not None


def _first_not_below(ordered: pa.Array, bounds: pa.Array) -> pa.Array:
    """Return for each bound the index of the first ordered value that is not below the bound.

    The index is null if all values are below the bound, and 0 for a null bound. This is a binary search.
    """
    count = len(ordered)
    index = pa.repeat(pa.scalar(0, pa.int64()), len(bounds))
    step = 1 << (count.bit_length() - 1)
    while step:
        probe = pc.add(index, step)
        value_before = ordered.take(pc.subtract(pc.min_element_wise(probe, count), 1))
        is_below = pc.and_(pc.less_equal(probe, count), pc.fill_null(pc.less(value_before, bounds), False))
        index = pc.if_else(is_below, probe, index)
        step >>= 1
    return pc.if_else(pc.less(index, count), index, pa.scalar(None, pa.int64()))


def _begin_with(literals: pa.Scalar | pa.Array, prefixes: pa.Array, candidates: pa.BooleanArray) -> pa.BooleanArray:
    """Return for each file whether the literal begins with the prefix; False where `candidates` is false or null.

    Python compares only strings with equal first characters.
    """
    heads = [pc.utf8_slice_codeunits(texts, 0, _HEAD) for texts in (literals, prefixes)]
    same_head = pc.or_(pc.less(pc.utf8_length(prefixes), _HEAD), pc.equal(*heads))
    candidates = pc.fill_null(pc.and_(candidates, same_head), False)
    indexes = pc.indices_nonzero(candidates)
    candidate_prefixes = prefixes.take(indexes).to_pylist()
    texts = (
        literals.take(indexes).to_pylist()
        if isinstance(literals, pa.Array)
        else [literals.as_py()] * len(candidate_prefixes)
    )
    has_prefix = [
        text is not None and text.startswith(prefix) for text, prefix in zip(texts, candidate_prefixes, strict=True)
    ]
    all_false = pa.repeat(pa.scalar(False), len(prefixes))
    return pc.replace_with_mask(all_false, candidates, pa.array(has_prefix, pa.bool_()))


def _mask_where(flags: pa.BooleanArray) -> Masks:
    return Masks.where(flags, ANY)
