"""Columns by name, with any characters in the name."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType

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
