"""One URI for a table, however it is addressed, and the same on every version of Airflow.

Airflow normalises the schemes of the providers that happen to be installed, and leaves others alone; what comes from
here is left as it is by all of them. The address itself is checked as an operator checks it. Standard library only.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from deltalite.storage.locations import parse_location

# Several names of one storage, as engines spell them.
SAME_STORAGE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
_NOT_ASCII = re.compile(r"[^\x21-\x7e]+")


def asset_uri(table: str) -> str:
    """The URI of the table at an address: `file:///lake/orders`, `s3://lake/orders`.

    Raises ``InvalidTableAddressError``.
    """
    location = parse_location(table)
    if location.is_local:
        return "file://" + quote(location.path)
    scheme, rest = location.path.split(":", 1)
    ascii_rest = _NOT_ASCII.sub(lambda found: quote(found[0]), rest)
    return f"{SAME_STORAGE.get(scheme, scheme)}:{ascii_rest}"
