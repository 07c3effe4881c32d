"""Predicates on char(n) columns: a file may store their texts with or without padding.

Spark pads the texts of such a column with blanks when it reads them, and compares the padded texts. A file may have
either form: delta-spark 4.4 inserts texts as they are, and pads them when it updates a row. Statistics and partition
values have the form of the file. A predicate on padded texts therefore becomes a predicate that is TRUE for every
stored text that may match. The new predicate is not exact, so it is combined with an `Unknown`. Spark:
CharVarcharUtils, ApplyCharTypePadding.
"""

from __future__ import annotations

from deltalite.columnar.predicates.predicate import (
    And,
    Comparison,
    In,
    Leaf,
    Operator,
    Path,
    Predicate,
    StartsWith,
    Unknown,
)

_MAX_SPELLINGS = 20_000


def on_stored_texts(leaf: Leaf) -> Predicate:
    """Convert a predicate on padded texts to a predicate on stored texts."""
    unknown = Unknown(frozenset((leaf.column,)))
    predicate = _stored_text_predicate(leaf)
    return unknown if predicate is None else And((predicate, unknown))


def least_stored_text(padded_text: str) -> str:
    """Return a lower bound of the stored texts that are at or above `padded_text` after padding."""
    # A shorter text counts too if its padding is above a character of `padded_text`.
    length = next((n for n, character in enumerate(padded_text) if character < " "), len(padded_text))
    return padded_text[:length].rstrip(" ")


def _stored_text_predicate(leaf: Leaf) -> Predicate | None:
    """Return a predicate that holds for every stored text for which the leaf may be TRUE, or None."""
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
    """Return the predicate that the stored text is one of `texts`, with all, some or none of its trailing blanks.

    None if there are more than `_MAX_SPELLINGS` such texts.
    """
    if sum(len(text) - len(text.rstrip(" ")) + 1 for text in texts) > _MAX_SPELLINGS:
        return None
    spellings = (text[:end] for text in texts for end in range(len(text.rstrip(" ")), len(text) + 1))
    return In(column, tuple(dict.fromkeys(spellings)))
