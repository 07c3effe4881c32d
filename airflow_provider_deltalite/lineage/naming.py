"""Names of datasets, by OpenLineage's rules: one table is one dataset, however its address is spelled.

The namespace is the storage (`s3://bucket`, `file`), the name is the path in it, so that what this provider says of a
table meets what Spark's own integration and other tools say of it. Keys of object stores begin without a slash, paths
of file systems with one. What is read by a pattern is named by the folder in front of the pattern. Standard library
only. Specification: OpenLineage, Naming.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_provider_deltalite.assets._uri import SAME_STORAGE
from deltalite.storage.locations import parse_location

_HAS_KEYS = frozenset({"s3", "gs", "wasbs"})
_HAS_CONTAINERS = frozenset({"abfss", "wasbs"})  # what stands before the `@` there is no user
_PASSWORD = re.compile(r"://[^/@]*:[^/]*@")  # with the user in front; the address of a source may have one
_PATTERN = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """What identifies a dataset for OpenLineage."""

    namespace: str
    name: str


def dataset_name(address: str) -> DatasetName:
    """The name of what lies at an address.

    Raises:
        InvalidTableAddressError: it is no address.
    """
    location = parse_location(_PASSWORD.sub("://", address, count=1))
    if location.is_local:
        return DatasetName(namespace="file", name=location.path)
    parts = urlsplit(location.path)
    scheme = SAME_STORAGE.get(location.scheme, location.scheme)
    authority = parts.netloc if scheme in _HAS_CONTAINERS else parts.netloc.rpartition("@")[2]
    namespace = f"{scheme}://{authority}" if authority else scheme
    name = parts.path.strip("/") if scheme in _HAS_KEYS else parts.path.rstrip("/")
    return DatasetName(namespace=namespace, name=name or "/")


def folder_before_pattern(path: str) -> str:
    """The path, or the folder in front of the first of its parts that is a pattern."""
    found = _PATTERN.search(path)
    return path if found is None else path[: path.rfind("/", 0, found.start()) + 1]
