"""Comparison of the header of a CSV file with the schema of its source, without regard to the case of names.

Spark assigns the columns of the schema by position. The result is wrong if the header has the names in another order.
It is right if the schema renames the columns. The functions here do no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class MisplacedColumn(NamedTuple):
    """A name of the header that the schema has at another position. The positions begin with 1."""

    name: str
    position: int
    schema_position: int


def are_matched_by_name(header: Sequence[str], schema: Sequence[str]) -> bool:
    """Whether the columns of a header are matched with the schema by name, not by position.

    True if the two lists of names differ, and one of the lists has all names of the other list. If the lists are equal,
    names and positions give the same columns.
    """
    names, schema_names = _lower(header), _lower(schema)
    return names != schema_names and (set(names) <= set(schema_names) or set(schema_names) <= set(names))


def misplaced_column(header: Sequence[str], schema: Sequence[str]) -> MisplacedColumn | None:
    """Return the first misplaced column, None if the columns can be matched by position."""
    schema_names = _lower(schema)
    for position, (name, lower_name) in enumerate(zip(header, _lower(header), strict=True)):
        if lower_name in schema_names and schema_names[position : position + 1] != [lower_name]:
            return MisplacedColumn(name, position + 1, schema_names.index(lower_name) + 1)
    return None


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
