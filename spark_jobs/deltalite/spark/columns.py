"""Columns by their names, whatever characters the names hold."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows


def quoted(name: str) -> str:
    """A name as SQL text."""
    return "`" + name.replace("`", "``") + "`"


def named(name: str) -> Column:
    """The column of that name; dots in it are part of the name."""
    return F.col(quoted(name))
