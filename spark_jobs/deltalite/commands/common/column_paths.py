"""The paths of the columns that a parameter of a request names."""

from __future__ import annotations

from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.statistics.footer import parse_column_list
from deltalite.errors import InvalidRequestError


def column_paths(name: str, parameter: str) -> list[Path]:
    """Return the column paths in `name`, a text such as ``a.b`` or `` `with.dot` `` in a request's `parameter`.

    Raises:
        InvalidRequestError: a backtick is not closed, or a name is empty.
    """
    try:
        return parse_column_list(name)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{parameter} contains {name!r}, which is not a valid column name.", remedy=error.remedy
        ) from error
