"""Predicates on columns of the type char(n), asked of files that may hold the texts with or without blanks.

Spark fills the texts of such a column with blanks up to its length when it reads them, and compares the filled texts. A
file holds them as its writer left them: delta-spark 4.4 inserts them as they are and fills them when it updates a row.
Statistics and partition values are those of the file. So a predicate on filled texts becomes one that is TRUE for every
stored text that may match, together with an `Unknown`, since it is not exact. Spark: CharVarcharUtils,
ApplyCharTypePadding.
"""

from __future__ import annotations

from deltalite.columnar.predicate import And, Comparison, In, Leaf, Operator, Path, Predicate, StartsWith, Unknown

_MOST_VARIANTS = 20_000


def on_stored_texts(leaf: Leaf) -> Predicate:
    """The predicate on stored texts for a predicate on texts that are filled with blanks."""
    unknown = Unknown(frozenset((leaf.column,)))
    stored = _stored(leaf)
    return unknown if stored is None else And((stored, unknown))


def least_stored_text(filled: str) -> str:
    """A lower bound of the stored texts that are at or above `filled` once they are filled with blanks."""
    kept = next((n for n, character in enumerate(filled) if character < " "), len(filled))
    return filled[:kept].rstrip(" ")


def _stored(leaf: Leaf) -> Predicate | None:
    """What is true of every stored text for which the leaf may be TRUE; None where nothing is known."""
    match leaf:
        case Comparison(column=column, operator=Operator.EQ | Operator.NULL_SAFE_EQ, literal=str(text)):
            return _one_of(column, (text,))
        case Comparison(operator=Operator.LT | Operator.LT_EQ, literal=str()):
            return leaf
        case Comparison(column=column, operator=Operator.GT | Operator.GT_EQ, literal=str(text)):
            return Comparison(column=column, operator=Operator.GT_EQ, literal=least_stored_text(text))
        case In(column=column, values=values) if all(isinstance(value, str) for value in values):
            return _one_of(column, values)
        case StartsWith(column=column, prefix=prefix):
            return StartsWith(column, prefix.rstrip(" "))
        case _:
            return None


def _one_of(column: Path, texts: tuple[str, ...]) -> Predicate | None:
    """The stored text is one of the filled ones, with as many of its last blanks or fewer."""
    if sum(len(text) - len(text.rstrip(" ")) + 1 for text in texts) > _MOST_VARIANTS:
        return None
    variants = (text[:end] for text in texts for end in range(len(text.rstrip(" ")), len(text) + 1))
    return In(column, tuple(dict.fromkeys(variants)))
