"""The errors for a source file that cannot be loaded, whatever its records are.

A copy with a quarantine leaves such a file out.
"""

from __future__ import annotations

from deltalite.errors import SchemaMismatchError, SourceError
from deltalite.protocol.csv_columns import MisplacedColumn
from deltalite.protocol.schema import StructType
from deltalite.requests.quarantine import FORMATS_WITH_BAD_RECORDS


class UnreadableFileError(SourceError):
    """One file of a source cannot be read."""


class UnfitFileError(SchemaMismatchError):
    """The columns of one file do not fit the table or the schema of the source. `address` is the file."""

    def __init__(self, problem: str, *, remedy: str, address: str = "") -> None:
        super().__init__(problem, remedy=remedy)
        self.address = address


def unfit_file_error(file_format: str, address: str, problem: str, table: StructType) -> UnfitFileError:
    """Return the error for a file with other columns than the table. `problem` says why they do not fit."""
    left_out = "the records with such columns" if file_format in FORMATS_WITH_BAD_RECORDS else "the file"
    return UnfitFileError(
        f"The columns of {address} do not fit the table. {problem} The table has: {', '.join(table.names)}.",
        remedy=f"Set merge_schema=True to add new columns. Or set `quarantine`, which leaves out {left_out}, or leave "
        "the file out with `pattern` or `file_names`.",
        address=address,
    )


def misplaced_column_error(address: str, column: MisplacedColumn) -> UnfitFileError:
    """Return the error for a CSV file whose header has a column of the schema at another position."""
    return UnfitFileError(
        f"The header of {address} has '{column.name}' in column {column.position}, and `schema` of the source has it "
        f"in column {column.schema_position}.",
        remedy="Put all names of the header into `schema`, so that columns are matched by name. Or leave the file out "
        "with `pattern` or `file_names`.",
        address=address,
    )
