"""The tables of a catalog's schema: the addresses of Delta tables, and rows for all other tables.

The catalog describes a table by a text of lines such as `Provider: delta`. Comments and properties are a part of the
text, and may contain such lines too. So a description with several lines of one kind is ambiguous, and is not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.errors import DeltaLiteError, TableError
from deltalite.inspection.table_rows import RowError, TableRow
from deltalite.storage.locations import canonical_address, parse_location

_DELTA = "delta"
_LOCAL_SCHEME_PATTERN = re.compile(r"^file:/+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaTables:
    """The tables of a schema.

    - `addresses`: the addresses of the Delta tables.
    - `names`: the names of the Delta tables in the catalog, by canonical address. Several names of a table are joined.
    - `other_rows`: a row for each table that is skipped, or that the catalog does not describe.
    """

    addresses: tuple[str, ...]
    names: Mapping[str, str]
    other_rows: tuple[TableRow, ...]

    def with_name(self, row: TableRow) -> TableRow:
        """Return a copy of the row that has the table's name in the catalog."""
        return replace(row, name=self.names.get(canonical_address(parse_location(row.table))))


def sort_tables(schema: str, descriptions: Mapping[str, str | DeltaLiteError]) -> SchemaTables:
    """Sort the tables of a schema into Delta tables and other tables.

    `descriptions` has the catalog's description of each table, or an error instead, by the table's name in the schema.
    """
    addresses: list[str] = []
    names: dict[str, list[str]] = {}
    other_rows: list[TableRow] = []
    for table_name, description in descriptions.items():
        name = f"{schema}.{table_name}"
        try:
            skip_reason, address = _parse_description(name, description)
            if skip_reason is None:
                names.setdefault(canonical_address(parse_location(address)), []).append(name)
                addresses.append(address)
            else:
                other_rows.append(TableRow(table=name, name=name, skip_reason=skip_reason))
        except DeltaLiteError as error:
            other_rows.append(TableRow(table=name, name=name, error=RowError.of(error)))
    joined_names = {address: ", ".join(table_names) for address, table_names in names.items()}
    return SchemaTables(addresses=tuple(addresses), names=joined_names, other_rows=tuple(other_rows))


def _parse_description(name: str, description: str | DeltaLiteError) -> tuple[str | None, str]:
    """Return the reason to skip a table, or None and the table's address.

    Raises:
        DeltaLiteError: the catalog does not describe the table, or the description is ambiguous.
    """
    if isinstance(description, DeltaLiteError):
        raise description
    types = _values(description, "Type")
    if types and types[0].endswith("VIEW"):  # Spark prints this line before any text of a user
        return "it is a view", ""
    providers = _values(description, "Provider")
    if len(providers) > 1:
        raise _unclear_error(name, "providers", providers)
    if not providers or providers[0].casefold() != _DELTA:
        return (f"its format is {providers[0]}" if providers else "the catalog names no format"), ""
    locations = _values(description, "Location")
    if len(locations) != 1:
        raise _unclear_error(name, "locations", locations)
    return None, _LOCAL_SCHEME_PATTERN.sub("/", locations[0])  # the text is not percent-encoded


def _values(description: str, key: str) -> list[str]:
    """Return the values in the lines `<key>: <value>` of a description."""
    prefix = f"{key}: "
    return [line.removeprefix(prefix) for line in description.splitlines() if line.startswith(prefix)]


def _unclear_error(name: str, values_name: str, values: list[str]) -> TableError:
    return TableError(
        f"The catalog's description of {name} shows {len(values)} {values_name}{': ' if values else ''}"
        f"{', '.join(values)}.",
        remedy="Remove line breaks from the comment and the properties of the table, or maintain it by its address.",
    )
