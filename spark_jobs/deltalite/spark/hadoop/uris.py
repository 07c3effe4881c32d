"""Addresses and paths in the form that Spark and Hadoop accept."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Hadoop's S3 client has the scheme `s3a`. The clients of the other two schemes are removed or proprietary.
_S3_SCHEME_PATTERN = re.compile(r"^s3n?://", re.IGNORECASE)


def spark_uri(address: str) -> str:
    """Return the address of a table or a file with Hadoop's scheme for its storage. It is not percent-encoded."""
    return f"file:{address}" if address.startswith("/") else _S3_SCHEME_PATTERN.sub("s3a://", address)


def glob_escaped(uri: str) -> str:
    """Return a path with escapes for `DataFrameReader.load`, which expands glob patterns."""
    return "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in uri)


def load_paths(addresses: Iterable[str]) -> list[str]:
    """Return the addresses of files as paths for `DataFrameReader.load`, which then loads exactly these files."""
    return [glob_escaped(spark_uri(address)) for address in addresses]
