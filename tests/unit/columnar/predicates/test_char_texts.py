"""Predicates on texts that are padded with spaces never exclude the stored text of a matching row."""

from __future__ import annotations

import operator

from hypothesis import example, given
from hypothesis import strategies as st

from deltalite.columnar.predicates.char_texts import on_stored_texts
from deltalite.columnar.predicates.predicate import And, Comparison, In, Operator, StartsWith, Unknown

LENGTH = 5
TEXTS = st.text(alphabet="\t\x1f !ab\u00e9\U0001f600", max_size=LENGTH + 1)
COMPARE = {
    Operator.EQ: operator.eq,
    Operator.NULL_SAFE_EQ: operator.eq,
    Operator.LT: operator.lt,
    Operator.LT_EQ: operator.le,
    Operator.GT: operator.gt,
    Operator.GT_EQ: operator.ge,
}


def is_true(predicate, text):
    match predicate:
        case Comparison(operator=comparison_operator, literal=literal):
            return COMPARE[comparison_operator](text, literal)
        case In(values=values):
            return text in values
        case StartsWith(prefix=prefix):
            return text.startswith(prefix)
        case And(children):
            return all(is_true(child, text) for child in children)
        case Unknown():
            return True


def leaves(texts):
    return st.one_of(
        st.builds(Comparison, column=st.just(("c",)), operator=st.sampled_from(list(COMPARE)), literal=texts),
        st.builds(In, st.just(("c",)), st.lists(texts, max_size=3).map(tuple)),
        st.builds(StartsWith, st.just(("c",)), texts),
    )


@given(stored_text=TEXTS, leaf=leaves(TEXTS))
@example(stored_text="ab", leaf=Comparison(column=("c",), operator=Operator.GT, literal="ab\t"))
def test_a_stored_text_that_matches_after_padding_is_not_excluded(stored_text, leaf):
    if is_true(leaf, stored_text.ljust(LENGTH)):
        assert is_true(on_stored_texts(leaf), stored_text)


def test_the_predicate_on_stored_texts_excludes_other_texts_and_is_never_certain():
    predicate = on_stored_texts(Comparison(column=("c",), operator=Operator.EQ, literal="ab   "))
    assert predicate == And((In(("c",), ("ab", "ab ", "ab  ", "ab   ")), Unknown(frozenset({("c",)}))))
    many = In(("c",), tuple(f"{n:<250}" for n in range(1_000)))
    assert on_stored_texts(many) == Unknown(frozenset({("c",)}))
    not_equal = Comparison(column=("c",), operator=Operator.NOT_EQ, literal="ab")
    assert on_stored_texts(not_equal) == Unknown(frozenset({("c",)}))
