"""Names of a catalog in Spark SQL: the parts of a name such as ``sales`` or ``catalog.sales``."""

from __future__ import annotations

import re

from deltalite.errors import InvalidRequestError

_PART = r"`(?:[^`]|``)+`|[^`.\s]+"
_NAME_PATTERN = re.compile(rf"(?:{_PART})(?:\.(?:{_PART}))*")


def name_parts(parameter: str, name: str) -> tuple[str, ...]:
    """Return the parts of a name, without backticks.

    `parameter` is the parameter of the request that contains the name, for the error.

    Raises:
        InvalidRequestError: a part is empty or has white space, or a backtick is not closed.
    """
    if _NAME_PATTERN.fullmatch(name) is None:
        raise InvalidRequestError(
            f"{parameter} is {name!r}, which is not the name of a schema.",
            remedy="Give a schema such as 'sales', or a catalog and a schema such as 'lake.sales'. Put a part with "
            "other characters in backticks.",
        )
    parts = re.findall(_PART, name)
    return tuple(part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts)
