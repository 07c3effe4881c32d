"""The parser of partition columns in SQL: `day DATE, country STRING`.

Backticks enclose a name with special characters, and a colon may follow the name. The parser accepts Spark SQL's names
of the simple types that can partition a table. The job parses the columns before it reads the folder.
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
_REMEDY = "Write the columns with their types, as in 'day DATE, country STRING'."


def parse_partition_schema(text: str) -> StructType:
    """Return the columns of the text, in order.

    Raises:
        InvalidRequestError: the text is not a list of columns, a type cannot partition a table, or a name is repeated.
    """
    fields: list[StructField] = []
    position, is_at_end = 0, False
    while not is_at_end:
        column = _COLUMN.match(text, position)
        if column is None:
            raise InvalidRequestError(
                f"partition_schema is {text!r}, which is invalid from {text[position:]!r} on.", remedy=_REMEDY
            )
        name = column["plain"] or column["quoted"].replace("``", "`")
        if any(field.name.lower() == name.lower() for field in fields):
            raise InvalidRequestError(f"partition_schema names '{name}' twice.", remedy="Name each column once.")
        fields.append(StructField(name, _type(column)))
        position, is_at_end = column.end(), column["end"] == ""
    return StructType(tuple(fields))


def _type(column: re.Match[str]) -> DataType:
    name, precision_text = column["type"].lower(), column["precision"]
    if name in _DECIMALS:
        precision, scale = int(precision_text or 10), int(column["scale"] or 0)
        if 1 <= precision <= MAX_PRECISION and scale <= precision:
            return DecimalType(precision, scale)
    elif name in _TYPES and precision_text is None:
        return PrimitiveType(_TYPES[name])
    parameters_text = "" if precision_text is None else f"({precision_text}, ...)"
    raise InvalidRequestError(
        f"partition_schema has the type '{column['type']}{parameters_text}', which cannot partition a table, or does "
        "not exist.",
        remedy=f"Choose one of {', '.join(kind.upper() for kind in _TYPES)}, DECIMAL(p, s).",
    )
