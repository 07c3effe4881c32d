"""The columns of CSV and JSON files, inferred by Spark from their content."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from deltalite.errors import SchemaMismatchError, SourceError
from deltalite.loaded_files.bad_file_search import find_one_bad_file
from deltalite.protocol.schema import StructType
from deltalite.spark.columns.types import from_spark
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.file_loading import FileLoader, SourceFiles
from deltalite.spark.runtime.errors import REMEDY_FOR_BAD_RECORD, SPARK_ERRORS, is_bad_record, repeated_column
from deltalite.spark.runtime.session import settings


class NamesError(SchemaMismatchError):
    """The inferred columns are invalid. Usually, names in JSON objects occur twice or differ only in case."""


class ColumnInference:
    """Infers the columns of some of the files of a read.

    Args:
        spark: the session.
        files: all files of the read.
        loader: the loader of the files.
        drops_bad_records: whether records that cannot be parsed are ignored. Otherwise such a record is an error.
    """

    def __init__(self, spark: SparkSession, files: SourceFiles, loader: FileLoader, *, drops_bad_records: bool) -> None:
        self._spark = spark
        self.files = files
        self._loader = loader
        self._drops_bad_records = drops_bad_records

    def columns(self, addresses: Sequence[str]) -> StructType:
        """Return the columns of some files.

        Raises:
            NamesError: names occur twice or differ only in case, or Delta does not have the type of a column.
        """
        # Otherwise Spark merges names in JSON that differ only in case, and reads only one of them.
        is_json = self.files.source.format == "json"
        with settings(self._spark, {"spark.sql.caseSensitive": "true"} if is_json else {}):
            reader = self._loader.configured({"inferSchema": "true"})
            if self._drops_bad_records:
                reader = reader.option("mode", "DROPMALFORMED")
            try:
                return from_spark(reader.load(load_paths(addresses)).schema)
            except (SchemaMismatchError, *SPARK_ERRORS) as error:
                problem = error.problem if isinstance(error, SchemaMismatchError) else repeated_column(error)
                if problem is None:
                    raise
                raise _names_error(self.files.folder, problem) from error

    def error_with_file(self, error: NamesError) -> NamesError:
        """Return the error of `columns` for all files, with the address of a file whose names do not fit together."""
        address = self._find_failing(lambda failure: isinstance(failure, NamesError))
        problem = error.problem
        if address is not None:  # else only the names of several files together do not fit
            problem = problem.replace(f"the files in {self.files.folder}", address)
        return NamesError(problem, remedy=error.remedy)

    def bad_record_error(self) -> SourceError:
        """Return the error if `columns` fails for all files because of a record that is not JSON."""
        address = self._find_failing(is_bad_record)
        return SourceError(
            f"Nothing was written: a record of {address or self.files.folder} is not a JSON object.",
            remedy=REMEDY_FOR_BAD_RECORD,
        )

    def _find_failing(self, is_relevant: Callable[[Exception], bool]) -> str | None:
        """Return a file for which `columns` raises a relevant error, None if the files fail only together."""

        def is_bad(addresses: Sequence[str]) -> bool:
            try:
                self.columns(addresses)
            except (NamesError, *SPARK_ERRORS) as error:
                return is_relevant(error)
            return False

        return find_one_bad_file(self.files.addresses, is_bad)


def stored_columns(files: SourceFiles, table: StructType) -> StructType:
    """Return the columns of the table that are stored in the files or in their folders."""
    return StructType(tuple(f for f in table if f.name.lower() != (files.file_column or "").lower()))


def checked_columns(files: SourceFiles, schema: StructType) -> StructType:
    """Return the inferred columns. Raise `SourceError` if there are none."""
    if not schema.fields:
        raise no_record_error(files)
    return schema


def no_record_error(files: SourceFiles) -> SourceError:
    """Return the error for files without a record."""
    return SourceError(
        f"The columns of the files in {files.folder} are unknown: the files have no record.",
        remedy="Give `schema` in the source, or wait for a file with records.",
    )


def _names_error(folder: str, problem: str) -> NamesError:
    return NamesError(
        f"Could not infer the columns of the files in {folder}: {problem}",
        remedy="Write each name once in an object, and with one spelling, or load the files of each spelling in "
        "separate runs. With `quarantine`, a load leaves such records out.",
    )
