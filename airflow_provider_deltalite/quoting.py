"""Template filters that put untrusted values into SQL and addresses: `sql_literal`, `sql_identifier`, `path_part`.

Use them for values from a DAG run's conf, from parameters that a person fills in, or from another task. Every operator
and sensor has them in its templates.

Some characters have a meaning in SQL: quotes and backslashes end or escape a text, and `$` inserts settings and
environment variables. A text with such a character becomes `CAST(X'...' AS STRING)` of its bytes. The result does not
depend on `spark.sql.parser.escapedStringLiterals`. A filter rejects a value that it cannot write safely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from deltalite.errors import InvalidRequestError

_SPECIAL_CHARACTERS = frozenset("'\"\\$`{}")


def sql_literal(value: object) -> str:  # noqa: C901  one case for each type
    """Write the value as a literal of Spark SQL: a text in quotes, a number, a date, NULL, or a list of these.

    Raises:
        InvalidRequestError: SQL has no literal for the value, such as an empty list or an undefined template variable.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _number_literal(str(int(value)))
        case float():
            text = repr(float(value))  # the repr of numpy's float64, a subclass, is `np.float64(1.5)`
            return _number_literal(f"{text}D") if math.isfinite(value) else f"CAST('{text}' AS DOUBLE)"
        case Decimal():
            return _number_literal(f"{value:f}BD") if value.is_finite() else _reject(value, "it is not a number")
        case str():
            return _text_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return _timestamp_literal(value)
        case date():
            return f"DATE'{value.isoformat()}'"
        case list() | tuple() | set() | frozenset():
            if not value:
                return _reject(value, "an empty list matches nothing, and SQL has no literal for it")
            return f"({', '.join(sql_literal(member) for member in value)})"
        case _:
            return _reject(value, f"SQL has no literal for a {type(value).__name__}")


def sql_identifier(name: object) -> str:
    """Quote the name of a column, so that Spark reads it as one name.

    Raises:
        InvalidRequestError: the name is empty, not a text, or contains `$` or control characters.
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        return _reject(name, "a name is a text without control characters")
    if "$" in name:
        return _reject(name, "Spark would replace the text after the '$'")
    return "`" + name.replace("`", "``") + "`"


def path_part(name: object) -> str:
    """Check that the name of a file or folder stays one part of an address, and return the name.

    Raises:
        InvalidRequestError: the name is not a text, a whole number or a date. Or it is empty, has white space around it
            or a special character, leads to another folder, is a pattern, or is hidden.
    """
    text = str(name) if isinstance(name, int | date) and not isinstance(name, bool) else name
    if not isinstance(text, str) or not text.strip() or text != text.strip() or not text.isprintable():
        return _reject(name, "a part of an address is a text, without white space around it")
    if text in (".", "..") or text.startswith(("~", "_", ".")) or set(text) & set("/\\%*?[]{},:@#"):
        return _reject(name, "it could lead out of the folder that it is put into")
    return text


FILTERS: Mapping[str, Callable[[Any], str]] = {
    "sql_literal": sql_literal,
    "sql_identifier": sql_identifier,
    "path_part": path_part,
}


class QuotingTemplates:
    """Mixin of operators and sensors that adds the filters to the templates of all fields."""

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Render as Airflow does, with the filters added."""
        add_filters(jinja_env)
        super()._do_render_template_fields(  # type: ignore[misc]  # Airflow's templater follows this mixin
            parent, template_fields, context, jinja_env, seen_oids
        )


def add_filters(jinja_env: Any) -> None:
    """Add the filters to an environment. Filters of the DAG author with the same names stay."""
    for name, function in FILTERS.items():
        jinja_env.filters.setdefault(name, function)


def _number_literal(digits: str) -> str:
    """Put a negative number in parentheses: after a minus in the template, its sign would begin a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def _text_literal(text: str) -> str:
    if text.isprintable() and not _SPECIAL_CHARACTERS & set(text):
        return f"'{text}'"
    try:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    except UnicodeEncodeError:
        return _reject(text, "it contains half of a surrogate pair")


def _timestamp_literal(moment: datetime) -> str:
    if moment != moment:  # noqa: PLR0124  pandas' NaT ("not a time") is a datetime
        return _reject(moment, "it is not a time")
    if moment.tzinfo is None:
        return f"TIMESTAMP_NTZ'{moment.isoformat(sep=' ')}'"
    try:
        in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return _reject(moment, "its time in UTC is not in the years 1 to 9999")
    return f"TIMESTAMP'{in_utc.isoformat(sep=' ')}Z'"


def _reject(value: object, reason: str) -> NoReturn:
    raise InvalidRequestError(
        f"{value!r} cannot be put into a template here: {reason}.", remedy="Check where the value comes from."
    )
