"""Dataset names by OpenLineage's rules: every spelling of a table's address gives the same name.

The namespace is the storage (`s3://bucket`, `file`), and the name is the path in it. OpenLineage's Spark integration
and other tools use the same names, so their lineage joins with this provider's. A key of an object store begins without
a slash. A path of a file system begins with a slash. A source with a glob pattern has the name of the folder before the
pattern. The module imports no third-party package. OpenLineage's Naming.md specifies the names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_provider_deltalite.assets._uri import CANONICAL_SCHEMES
from deltalite.storage.locations import parse_location

_SCHEMES_WITH_KEYS = frozenset({"s3", "gs", "wasbs"})  # a key begins without a slash
_CONTAINER_SCHEMES = frozenset({"abfss", "wasbs"})  # the part before the `@` is a container, not a user
_CREDENTIALS = re.compile(r"://[^/@]*:[^/]*@")  # user and password in the address of a source
_GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """The identity of a dataset in OpenLineage."""

    namespace: str
    name: str


def dataset_name(address: str) -> DatasetName:
    """Return the dataset name of an address.

    Raises:
        InvalidTableAddressError: the address is invalid.
    """
    location = parse_location(_CREDENTIALS.sub("://", address, count=1))
    if location.is_local:
        return DatasetName(namespace="file", name=location.path)
    url = urlsplit(location.path)
    scheme = CANONICAL_SCHEMES.get(location.scheme, location.scheme)
    authority = url.netloc if scheme in _CONTAINER_SCHEMES else url.netloc.rpartition("@")[2]
    namespace = f"{scheme}://{authority}" if authority else scheme
    name = url.path.strip("/") if scheme in _SCHEMES_WITH_KEYS else url.path.rstrip("/")
    return DatasetName(namespace=namespace, name=name or "/")


def folder_before_pattern(path: str) -> str:
    """Return the folder before the first part with a glob pattern; the path itself if it has no pattern."""
    match = _GLOB.search(path)
    return path if match is None else path[: path.rfind("/", 0, match.start()) + 1]
