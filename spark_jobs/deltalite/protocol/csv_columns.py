"""How the header of a CSV file and the schema of its source fit together. The case of names has no meaning.

Spark assigns the columns of the schema by position. That is wrong if the header has the names in another order. It is
right if the schema renames the columns. The functions here do no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto


class ColumnMatch(Enum):
    """How the columns of a file are matched with those of the schema."""

    BY_NAME = auto()
    BY_POSITION = auto()
    NONE = auto()


def match_columns(header: Sequence[str], schema: Sequence[str]) -> ColumnMatch:
    """Return how the columns of a header are matched with the names of a schema.

    - by position, if both are equal, or no name of the header is in the schema at another position;
    - by name, if one of them has all names of the other;
    - not at all otherwise, because some columns could be wrong by name, and other ones by position.
    """
    header_names, schema_names = _lower(header), _lower(schema)
    if header_names == schema_names:
        return ColumnMatch.BY_POSITION
    if set(header_names) <= set(schema_names) or set(schema_names) <= set(header_names):
        return ColumnMatch.BY_NAME
    return ColumnMatch.NONE if _misplaced(header_names, schema_names) else ColumnMatch.BY_POSITION


def misplaced_column(header: Sequence[str], schema: Sequence[str]) -> tuple[str, int, int]:
    """Return a name of the header that the schema has at another position, and both positions, from 1."""
    position = _misplaced(_lower(header), _lower(schema))[0]
    return header[position], position + 1, _lower(schema).index(header[position].lower()) + 1


def _misplaced(header: Sequence[str], schema: Sequence[str]) -> list[int]:
    return [
        position for position, name in enumerate(header) if name in schema and schema[position : position + 1] != [name]
    ]


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
