"""Columns by name, with any characters in the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import StructField, StructType

TARGET, SOURCE = "target", "source"
"""The aliases of the table's rows and of the source's rows in the SQL text of a request."""


def quoted(name: str) -> str:
    """Return a name in backticks, for SQL text."""
    return "`" + name.replace("`", "``") + "`"


def unused_name(schema: StructType, stem: str) -> str:
    """Return a name for a helper column that no column of the schema has, ignoring case."""
    name = f"__deltalite_{stem}"
    while schema.find(name) is not None:
        name += "_"
    return name


def column_named(name: str) -> Column:
    """Return the column with exactly this name. A dot is part of the name."""
    return F.col(quoted(name))


def fields_named(
    schema: StructType, names: Iterable[str], *, problem: Callable[[str], str], remedy: str
) -> tuple[StructField, ...]:
    """Return the fields of the names in a request, ignoring case.

    Args:
        schema: the columns.
        names: the names in the request.
        problem: returns the problem of the error, for the name of a missing column.
        remedy: the beginning of the error's remedy. The names of the columns follow it.

    Raises:
        InvalidRequestError: a column does not exist.
    """
    fields = []
    for name in names:
        field = schema.find(name)
        if field is None:
            raise InvalidRequestError(problem(name), remedy=f"{remedy} {', '.join(schema.names)}.")
        fields.append(field)
    return tuple(fields)
