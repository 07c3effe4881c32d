"""The parameter `deduplicate`: one source row for each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import Fault, convert_to_enum, repeated_name


class Keep(StrEnum):
    """The row of a key that stays: the first or the last row in the order of `order_by`."""

    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """The rule that keeps one source row for each value of `keys`.

    `order_by` is one Spark SQL expression or several. Rows that are equal in all columns count as one row. Other rows
    of a key with equal values of `order_by` are an error. Without `order_by`, different rows of a key are an error.
    """

    keys: tuple[str, ...]
    keep: Keep = Keep.LAST
    order_by: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        convert_to_enum(self, "keep", Keep)
        object.__setattr__(self, "keys", tuple(self.keys))
        order_by = (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)
        object.__setattr__(self, "order_by", order_by)
        for problem, remedy in _faults(self):
            raise InvalidRequestError(problem, remedy=remedy)

    @property
    def order_texts(self) -> tuple[str, ...]:
        """The expressions of `order_by`."""
        return tuple(self.order_by)  # the constructor has replaced a text by a tuple


def deduplicate_of(body: Mapping[str, Any] | None) -> Deduplicate | None:
    """Build the rule from a request's JSON."""
    return None if body is None else Deduplicate(**body)


def _faults(rule: Deduplicate) -> Iterator[Fault]:
    if not rule.keys:
        yield "deduplicate has no keys.", "Give the columns that identify a row: {'keys': ['id'], ...}."
    repeated_key = repeated_name(rule.keys)
    if repeated_key is not None:
        yield f"deduplicate names the key '{repeated_key}' twice.", "Name each column once."
    for name, texts in (("keys", rule.keys), ("order_by", rule.order_texts)):
        if not all(text.strip() for text in texts):
            yield f"deduplicate has an empty text in {name}.", "Correct or remove it."
    if rule.keep is Keep.FIRST and not rule.order_by:
        yield "deduplicate has keep='first' without order_by.", "Give order_by, which says which row is the first."
