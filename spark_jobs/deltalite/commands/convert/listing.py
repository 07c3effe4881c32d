"""The Parquet files of a folder to convert, and the partition values in the names of its `column=value` folders.

Names that begin with `_` or `.` and contain no `=` are hidden, as in a conversion of delta-spark. Names that end with
`._COPYING_` are hidden too. Empty files hold no row and are left out. Before a file is opened, a folder is refused if
it holds one of these:

- another Delta table
- the metadata of another table format
- links, special files, or names that are not text
- folder names that do not match the partition columns

Folder names are escaped as in Hive. Their values are checked, and converted to the text that the log requires.
Protocol: Partition Value Serialization; delta-spark: ConvertUtils.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import CorruptLogError, InvalidRequestError, SourceError, UnsupportedFeatureError
from deltalite.protocol.file_names import LOG_DIR
from deltalite.protocol.partition_values import canonical_text, parse_partition_value, partition_scalar
from deltalite.protocol.paths import HIVE_NULL
from deltalite.protocol.schema import DataType, DecimalType, PrimitiveType, StructType
from deltalite.sizes import counted
from deltalite.storage.trees import FolderContent, ListedTree, walk

LISTING_SCHEMA = pa.schema([("name", pa.string()), ("size", pa.int64()), ("time_ms", pa.int64())])
# Names of folders that identify another table format.
_FOREIGN_FORMATS = {
    "_spark_metadata": "the output of a Spark stream, with metadata that lists the valid files",
    ".hoodie": "a Hudi table",
}
_ICEBERG_METADATA_SUFFIX = ".metadata.json"
# Spark's CAST silently drops a time of day from a date, and a time zone from a timestamp_ntz.
_TIME_OF_DAY_PATTERN = re.compile(r"\d[ T]+\S", re.ASCII)
_ZONE_PATTERN = re.compile(r"\d[ T].*[^\d:.\s]", re.ASCII | re.DOTALL)
_INTEGER_TYPES = frozenset({"byte", "short", "integer", "long"})
_log = logging.getLogger(__name__)


def listed_files(tree: ListedTree) -> pa.Table:
    """Return the files that may hold rows, sorted by name, with the columns of `LISTING_SCHEMA`.

    Raises:
        SourceError: there are no such files, or the folder holds another table, links or special files.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    collector = _FileCollector(tree.root)
    walk(tree, collector.add)
    files = pa.concat_tables([LISTING_SCHEMA.empty_table(), *collector.tables]).sort_by("name")
    empty = files.filter(pc.equal(files["size"], 0))
    if empty.num_rows:
        _log.warning(
            "Ignoring %s of %s, such as %s: an empty file is not a Parquet file.",
            counted(empty.num_rows, "empty file"),
            tree.root,
            empty["name"][0].as_py(),
        )
        files = files.filter(pc.greater(files["size"], 0))
    if not files.num_rows:
        raise SourceError(
            f"{tree.root} holds no Parquet files, or is not a folder.",
            remedy="Check the address. DeltaWriteOperator can create an empty table.",
        )
    return files


def check_unchanged(before: pa.Table, tree: ListedTree) -> None:
    """Check that the folder has the same files as in the earlier listing, with the same sizes and times.

    Raises:
        SourceError: a file was added, removed or changed.
    """
    after = listed_files(tree)
    if after.equals(before):
        return
    old_files, new_files = (
        {(row["name"], row["size"], row["time_ms"]) for row in listing.to_pylist()} for listing in (before, after)
    )
    raise SourceError(
        f"{tree.root} changed while it was converted: a file such as {min(old_files ^ new_files)[0]} was added, "
        "removed or changed. Nothing was committed.",
        remedy="Stop the writer of this folder, and run the task again.",
    )


@dataclass(slots=True)
class _FileCollector:
    """The files that a walk has met so far, as one table for each folder, with the columns of `LISTING_SCHEMA`."""

    root: str
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, folder: FolderContent) -> list[str]:
        """Check a folder, collect its files and return the folders to visit."""
        address = f"{self.root}/{folder.name}" if folder.name else self.root
        self._check_is_convertible(folder, address)
        visible_indexes = [index for index, base in enumerate(folder.bases) if not _is_hidden(base)]
        if visible_indexes:
            prefix = f"{folder.name}/" if folder.name else ""
            columns = (
                [prefix + folder.bases[index] for index in visible_indexes],
                [folder.sizes[index] for index in visible_indexes],
                [folder.times_ms[index] for index in visible_indexes],
            )
            self.tables.append(pa.table(dict(zip(LISTING_SCHEMA.names, columns, strict=True)), schema=LISTING_SCHEMA))
        return [name for name, _ in folder.folders if not _is_hidden(_base_name(name))]

    def _check_is_convertible(self, folder: FolderContent, address: str) -> None:
        """Raise `SourceError` if the folder belongs to another table, or holds links or special files."""
        subfolders = {_base_name(name) for name, _ in folder.folders}
        if folder.name and LOG_DIR in subfolders:
            raise SourceError(
                f"{address} is another Delta table inside the folder to convert.",
                remedy="Convert each folder beside this table separately.",
            )
        foreign_format = next((text for name, text in _FOREIGN_FORMATS.items() if name in subfolders), None)
        has_iceberg_metadata = any(base.endswith(_ICEBERG_METADATA_SUFFIX) for base in folder.bases)
        if _base_name(folder.name) == "metadata" and has_iceberg_metadata:
            foreign_format = "an Iceberg table"
        if foreign_format is not None:
            raise SourceError(
                f"{address} is part of {foreign_format}. The folder may also hold files that are no longer valid.",
                remedy="Read it with an engine for this format, and write the rows with DeltaWriteOperator.",
            )
        if folder.has_more:
            raise SourceError(
                f"{address} holds a link or a special file, or a file with a name that is not text. The conversion "
                "does not follow links, so rows could be missing.",
                remedy="Remove the links and rename such files, or copy the linked files into the folder.",
            )


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _is_hidden(base: str) -> bool:
    return (base.startswith(("_", ".")) and "=" not in base) or base.endswith("._COPYING_")


class FolderValues:
    """The partition values of files, by folder. Without partition columns, folder names without `=` are ignored."""

    def __init__(self, partition_schema: StructType) -> None:
        self._partition_schema = partition_schema
        self._values_by_folder: dict[str, dict[str, str | None]] = {}

    def of(self, name: str) -> dict[str, str | None]:
        """Return the partition values of a file as the log spells them; `name` is its path below the root.

        Raises:
            InvalidRequestError: the folder names do not match the partition columns, or a value does not fit its type.
        """
        folder = name.rpartition("/")[0]
        values = self._values_by_folder.get(folder)
        if values is None:
            values = self._values_by_folder[folder] = dict(self._parse(folder, name))
        return values

    def _parse(self, folder: str, name: str) -> Iterator[tuple[str, str | None]]:
        """Yield each partition column with its value in the folder names."""
        split_names = [folder_name.partition("=") for folder_name in folder.split("/")] if folder else []
        columns = [_unescaped(column) if equals else None for column, equals, _ in split_names]
        expected_columns = list(self._partition_schema.names)
        if not expected_columns and not any(columns):
            return
        if [c if c is None else c.lower() for c in columns] != [c.lower() for c in expected_columns]:
            raise _folder_mismatch(name, columns, expected_columns)
        for (_, _, text), column in zip(split_names, self._partition_schema, strict=True):
            yield column.name, _text_for_log(None if text == HIVE_NULL else _unescaped(text), column.type, name)


def _unescaped(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"The folder name {text!r} has an escape that is not UTF-8: {error}.", remedy="Rename the folder."
        ) from error


def _folder_mismatch(name: str, columns: list[str | None], expected_columns: list[str]) -> InvalidRequestError:
    """Return the error for a file with folder names that do not match the partition columns."""
    if expected_columns:
        return InvalidRequestError(
            f"partition_schema has the columns ({', '.join(expected_columns)}), but the folders of {name} have "
            f"({', '.join(column or 'no column' for column in columns)}).",
            remedy="Correct partition_schema, or move the files to folders such as "
            f"{'/'.join(f'{column}=...' for column in expected_columns)}.",
        )
    schema = ", ".join(f"{column} STRING" for column in columns if column)
    return InvalidRequestError(
        f"The files are partitioned by folders, such as {name}, but partition_schema is not set.",
        remedy=f"Set partition_schema to the columns with their types, such as partition_schema='{schema}'.",
    )


def _refuse_dropped_part(dropped_part: re.Pattern[str], text: str) -> None:
    """Raise `CorruptLogError` if a cast to the column's type would drop a part of the text."""
    if dropped_part.search(text):
        raise CorruptLogError("The type would drop a part of the text.", remedy="Leave that part out.")


def _text_for_log(text: str | None, data_type: DataType, name: str) -> str | None:
    """Return the partition value as the log spells it: in one canonical form, in UTC for a timestamp, None for ''."""
    if text is None or text == "":
        return None
    try:
        value = partition_scalar(text, data_type)
        match data_type:
            case PrimitiveType(kind) if kind in _INTEGER_TYPES:
                return str(int(text))
            case DecimalType():
                return format(value.as_py(), "f")  # keeps all digits of the scale, because some readers require them
            case PrimitiveType("boolean"):
                return text.lower()
            case PrimitiveType("timestamp"):
                timestamp = parse_partition_value(text, data_type).astimezone(UTC)
                return f"{timestamp.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
            case PrimitiveType("date"):
                _refuse_dropped_part(_TIME_OF_DAY_PATTERN, text)
                return canonical_text(text, data_type)
            case PrimitiveType("timestamp_ntz"):
                _refuse_dropped_part(_ZONE_PATTERN, text)
                return str(parse_partition_value(text, data_type))
            case _:
                return text
    except (CorruptLogError, UnsupportedFeatureError) as error:
        raise InvalidRequestError(
            f"The folder of {name} has the partition value {text!r}, which is not a valid {data_type}.",
            remedy="Correct the type in partition_schema (STRING takes every value), or rename the folder.",
        ) from error
