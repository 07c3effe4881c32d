"""Columns by their names, whatever characters the names hold."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType

TARGET, SOURCE = "target", "source"
"""How SQL text of a request may call the table's rows, and those that are merged into it."""


def quoted(name: str) -> str:
    """A name as SQL text."""
    return "`" + name.replace("`", "``") + "`"


def unused_name(schema: StructType, stem: str) -> str:
    """A name for a column of our own that no column of the table has, whatever its case."""
    name = f"__deltalite_{stem}"
    while schema.find(name) is not None:
        name += "_"
    return name


def named(name: str) -> Column:
    """The column of that name; dots in it are part of the name."""
    return F.col(quoted(name))
