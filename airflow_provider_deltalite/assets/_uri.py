"""The asset URI of a table: the same for every spelling of its address and on every version of Airflow.

Airflow normalizes the URI schemes of the installed providers. None of them changes a URI from this module. The address
is validated as in an operator. The module imports no third-party package.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from deltalite.storage.locations import parse_location

# Alternative schemes of a storage, by the one that the URI has.
SAME_STORAGE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
_NOT_ASCII = re.compile(r"[^\x21-\x7e]+")


def asset_uri(table: str) -> str:
    """Return the asset URI of a table's address, such as `file:///lake/orders` or `s3://lake/orders`.

    Raises ``InvalidTableAddressError``.
    """
    location = parse_location(table)
    if location.is_local:
        return "file://" + quote(location.path)
    scheme, rest = location.path.split(":", 1)
    ascii_rest = _NOT_ASCII.sub(lambda match: quote(match[0]), rest)
    return f"{SAME_STORAGE.get(scheme, scheme)}:{ascii_rest}"
