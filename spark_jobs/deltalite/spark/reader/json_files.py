"""The rows of JSON files. Without a schema, Spark infers their columns, and reads them with the types of the table.

With a separation of bad records, the files are read as lines in these cases:

- A record has more text after its first value (`json_values.py`).
- The source has no schema, and a name occurs twice in an object or has two spellings (`json_lines.py`).
- The source has no schema, and records disagree about a column that has members in the table (`json_lines.py`).

If the source has no schema and the columns of the table are unknown, Spark's reader reads all files.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltalite.protocol.schema import StructType
from deltalite.protocol.source_schemas import schema_for_reading
from deltalite.protocol.unknown_columns import hides_columns
from deltalite.spark.reader.bad_record_lines import LineFormat
from deltalite.spark.reader.column_inference import ColumnInference, NamesError, checked_columns, stored_columns
from deltalite.spark.reader.file_loading import FileLoader, LineReading
from deltalite.spark.reader.json_lines import columns_of_lines
from deltalite.spark.reader.json_values import find_more_text
from deltalite.spark.reader.record_schema import line_format_of, lower_options
from deltalite.spark.runtime.errors import SPARK_ERRORS, is_bad_record

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonReader:
    """Reads JSON files. `separates` says whether bad records are left out. The rest is as in `read_source_files`."""

    inference: ColumnInference
    loader: FileLoader
    table: StructType | None
    merge_schema: bool
    separates: bool

    def frame(self) -> DataFrame:
        """Return the rows of all files.

        Raises:
            NamesError: the names of the records do not fit together.
            SourceError: a record has more text after its first value.
        """
        files = self.inference.files
        line_format = line_format_of(files.source)
        has_more_text = line_format is not None and self._has_more_text(line_format)
        if files.source.schema is not None:
            as_lines = LineReading() if has_more_text else None
            return self.loader.load(files.addresses, files.source.schema, as_lines=as_lines)
        if line_format is not None and has_more_text and self.table is not None:
            return self._frame_of_lines(line_format, self.table)
        return self._inferred(line_format if self.separates else None)

    def _has_more_text(self, line_format: LineFormat) -> bool:
        """Whether a record has more text after its first value. Without `separates`, raise `SourceError` for it."""
        files = self.inference.files
        error = find_more_text(self.loader.spark, files.addresses, line_format, lower_options(files.source))
        if error is not None and not self.separates:
            raise error
        return error is not None

    def _inferred(self, line_format: LineFormat | None) -> DataFrame:
        """Return the rows, with the columns that Spark infers. `line_format` is None if no record can be separated."""
        files, table = self.inference.files, self.table
        try:
            inferred = self.inference.columns(files.addresses)
        except NamesError as error:
            if line_format is not None and table is not None:
                return self._frame_of_lines(line_format, table)
            raise self.inference.error_with_file(error) from error
        except SPARK_ERRORS as error:
            if is_bad_record(error):
                raise self.inference.bad_record_error() from error
            raise
        if table is not None:
            if line_format is not None and hides_columns(inferred, table):
                return self._frame_of_lines(line_format, table)
            inferred = self._with_stored_columns(schema_for_reading(inferred, table), table)
        return self.loader.load(files.addresses, checked_columns(files, inferred))

    def _frame_of_lines(self, line_format: LineFormat, table: StructType) -> DataFrame:
        files = self.inference.files
        _log.info("Reading the JSON files in %s as lines, because some records do not fit.", files.folder)
        columns = columns_of_lines(self.loader.spark, files.source, files.addresses, line_format, table)
        read_columns = columns.of_good_records if self.merge_schema else columns.of_all_records
        read_columns = self._with_stored_columns(read_columns, table)
        return self.loader.load(files.addresses, read_columns, as_lines=LineReading(names=columns.of_all_records))

    def _with_stored_columns(self, inferred: StructType, table: StructType) -> StructType:
        """Return the inferred columns, and the columns of the table if the good records have no column."""
        if any(table.find(name) for name in inferred.names):
            return inferred
        if inferred.fields and (self.merge_schema or not self.separates):
            return inferred
        return StructType((*inferred.fields, *stored_columns(self.inference.files, table)))
