"""Values of others as parts of SQL and of addresses: nothing that stands in a text can end the place it stands in.

These are the filters `sql_literal`, `sql_identifier` and `path_part` of the templates of every operator and sensor, for
what comes from a run's conf, from parameters that a person fills in, or from another task. A text with any character
that SQL gives a meaning (quotes and backslashes end or escape, `$` inserts settings and environment variables) becomes
`CAST(X'...' AS STRING)` of its bytes. That is the same text whether or not the session's parser reads backslashes as
escapes (`spark.sql.parser.escapedStringLiterals`). What cannot be said safely is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from deltalite.errors import InvalidRequestError

_MEANINGFUL = frozenset("'\"\\$`{}")


def sql_literal(value: object) -> str:  # noqa: C901  one arm a kind
    """A value as Spark SQL that means this value: a text in quotes, a number, a date, NULL, or a list of these.

    Raises:
        InvalidRequestError: the value is undefined, an empty list, or of another kind.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _number_literal(str(int(value)))
        case float():
            text = repr(float(value))  # numpy's own, which is a float, calls itself a call
            return _number_literal(f"{text}D") if math.isfinite(value) else f"CAST('{text}' AS DOUBLE)"
        case Decimal():
            return _number_literal(f"{value:f}BD") if value.is_finite() else _refused(value, "it is no number")
        case str():
            return _text_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return _timestamp(value)
        case date():
            return f"DATE'{value.isoformat()}'"
        case list() | tuple() | set() | frozenset():
            if not value:
                return _refused(value, "an empty list matches nothing, and SQL has no way to write it")
            return f"({', '.join(sql_literal(one) for one in value)})"
        case _:
            return _refused(value, f"a {type(value).__name__} is no value of SQL's")


def sql_identifier(name: object) -> str:
    """A name of a column, quoted so that it is one name, whatever stands in it.

    Raises:
        InvalidRequestError: it is no text, empty, or holds control characters.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        return _refused(name, "a name is a text without control characters")
    if "$" in name:
        return _refused(name, "Spark would replace what stands behind the '$'")
    return "`" + name.replace("`", "``") + "`"


def path_part(name: object) -> str:
    """A text that may be one part of an address: it names something in its folder, and nothing else.

    Raises:
        InvalidRequestError: it is empty, leads elsewhere, is a pattern, or would be read as more than a name.
    """
    text = str(name) if isinstance(name, int | date) and not isinstance(name, bool) else name
    if not isinstance(text, str) or not text.strip() or text != text.strip() or not text.isprintable():
        return _refused(name, "a part of an address is a text, without white space around it")
    if text in (".", "..") or text.startswith(("~", "_", ".")) or set(text) & set("/\\%*?[]{},:@#"):
        return _refused(name, "it could lead to another place than the folder that it is put into")
    return text


FILTERS: Mapping[str, Callable[[Any], str]] = {
    "sql_literal": sql_literal,
    "sql_identifier": sql_identifier,
    "path_part": path_part,
}


class QuotingTemplates:
    """For operators and sensors: the filters are there in the templates of all their fields."""

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Airflow's own, whose environment an author's filters of the same names have been put into already."""
        add_filters(jinja_env)
        super()._do_render_template_fields(  # type: ignore[misc]  # Airflow's templater is behind this class
            parent, template_fields, context, jinja_env, seen_oids
        )


def add_filters(jinja_env: Any) -> None:
    """Make the filters known to an environment; an author's own of the same name stay."""
    for name, function in FILTERS.items():
        jinja_env.filters.setdefault(name, function)


def _number_literal(digits: str) -> str:
    """A number that is less than nothing in parentheses: behind a minus of the template, its own begins a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def _text_literal(text: str) -> str:
    if text.isprintable() and not _MEANINGFUL & set(text):
        return f"'{text}'"
    try:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    except UnicodeEncodeError:
        return _refused(text, "it holds half of a character")


def _timestamp(moment: datetime) -> str:
    if moment != moment:  # noqa: PLR0124  pandas' NaT is a datetime that is none
        return _refused(moment, "it is no time")
    if moment.tzinfo is None:
        return f"TIMESTAMP_NTZ'{moment.isoformat(sep=' ')}'"
    try:
        in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return _refused(moment, "its time in UTC is not in the years 1 to 9999")
    return f"TIMESTAMP'{in_utc.isoformat(sep=' ')}Z'"


def _refused(value: object, why: str) -> str:
    raise InvalidRequestError(
        f"{value!r} cannot be put into a template here: {why}.", remedy="Check where the value comes from."
    )
