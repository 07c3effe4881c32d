"""The columns of a partitioned folder as SQL spells them: `day DATE, country STRING`.

Only what can partition a table is understood: names, in backticks where they are no plain words, and simple types by
their names in Spark SQL. Nothing here needs Spark, so that what is wrong is said before a session is asked for.
"""

from __future__ import annotations

import re

from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import MAX_PRECISION, DataType, DecimalType, PrimitiveType, StructField, StructType

_TYPES = {
    "string": "string",
    "bigint": "long",
    "long": "long",
    "int": "integer",
    "integer": "integer",
    "smallint": "short",
    "short": "short",
    "tinyint": "byte",
    "byte": "byte",
    "float": "float",
    "real": "float",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))(?:\s*:\s*|\s+)(?P<type>[A-Za-z_]+)\s*"
    r"(?:\(\s*(?P<precision>\d{1,2})\s*(?:,\s*(?P<scale>\d{1,2})\s*)?\))?\s*(?P<end>,|$)"
)
_DECIMALS = ("decimal", "dec", "numeric")
_HELP = "Write the columns with their types, as in 'day DATE, country STRING'."


def parse_partition_schema(text: str) -> StructType:
    """The columns, in order.

    Raises:
        InvalidRequestError: the text is no list of columns, a type cannot partition a table, or a name comes twice.
    """
    fields: list[StructField] = []
    at, ended = 0, False
    while not ended:
        found = _COLUMN.match(text, at)
        if found is None:
            raise InvalidRequestError(
                f"partition_schema is {text!r}, which cannot be understood from {text[at:]!r} on.", remedy=_HELP
            )
        name = found["plain"] or found["quoted"].replace("``", "`")
        if any(field.name.lower() == name.lower() for field in fields):
            raise InvalidRequestError(f"partition_schema names '{name}' twice.", remedy="Name each column once.")
        fields.append(StructField(name, _type(found)))
        at, ended = found.end(), found["end"] == ""
    return StructType(tuple(fields))


def _type(found: re.Match[str]) -> DataType:
    name, digits = found["type"].lower(), found["precision"]
    if name in _DECIMALS:
        precision, scale = int(digits or 10), int(found["scale"] or 0)
        if 1 <= precision <= MAX_PRECISION and scale <= precision:
            return DecimalType(precision, scale)
    elif name in _TYPES and digits is None:
        return PrimitiveType(_TYPES[name])
    raise InvalidRequestError(
        f"partition_schema has the type '{found['type']}{'' if digits is None else '(' + digits + ', ...)'}', which "
        "cannot partition a table, or does not exist.",
        remedy=f"Choose one of {', '.join(kind.upper() for kind in _TYPES)}, DECIMAL(p, s).",
    )
