"""Paths as Spark's readers take them."""

from __future__ import annotations


def glob_escaped(uri: str) -> str:
    """A path for `DataFrameReader.load`, which expands patterns."""
    return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in uri)
