"""Addresses and paths as Spark and Hadoop take them."""

from __future__ import annotations

import re

# S3 through Hadoop is `s3a`; the other two names have had clients of their own, which are gone or closed.
_S3 = re.compile(r"^s3n?://", re.IGNORECASE)


def spark_uri(address: str) -> str:
    """The address of a table or a file, unescaped, with the scheme by which Hadoop knows its storage."""
    return f"file:{address}" if address.startswith("/") else _S3.sub("s3a://", address)


def glob_escaped(uri: str) -> str:
    """A path for `DataFrameReader.load`, which expands patterns."""
    return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in uri)
