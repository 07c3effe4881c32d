"""The asset URI of a table: equal for all spellings of its address (`s3a:`, `s3:`), on every version of Airflow.

Airflow normalizes URIs by rules of the installed providers. None of these rules changes a URI from this module. The
address is validated as in an operator. The module imports no third-party package.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from deltalite.storage.locations import parse_location

# The scheme in the asset URI, by alternative scheme of the same storage.
CANONICAL_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
# The schemes of the storages that can hold a table.
TABLE_SCHEMES = frozenset({"file", "hdfs", "viewfs", *CANONICAL_SCHEMES, *CANONICAL_SCHEMES.values()})
_NOT_PRINTABLE_ASCII = re.compile(r"[^\x21-\x7e]+")


def asset_uri(table: str) -> str:
    """Return the asset URI of a table's address, such as `file:///lake/orders` or `s3://lake/orders`.

    Raises:
        InvalidTableAddressError: The address is invalid.
    """
    location = parse_location(table)
    if location.is_local:
        return "file://" + quote(location.path)
    scheme, after_scheme = location.path.split(":", 1)
    ascii_after_scheme = _NOT_PRINTABLE_ASCII.sub(lambda match: quote(match[0]), after_scheme)
    return f"{CANONICAL_SCHEMES.get(scheme, scheme)}:{ascii_after_scheme}"
