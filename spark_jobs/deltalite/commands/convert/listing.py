"""The Parquet files of a folder to convert, and the partition values in the names of its `column=value` folders.

Names that begin with `_` or `.` are hidden, as in Spark, unless they are partition folders. The listing refuses any
folder whose files are not plain rows, before it opens a file: another Delta table inside, the metadata of another
table format, links, or folder names that do not match the partition columns. Empty files hold no row and are left out.
Folder names are escaped as in Hive; their values are checked and written as the log requires.
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
from deltalite.storage.trees import Folder, ListedTree, walk

LISTED = pa.schema([("name", pa.string()), ("size", pa.int64()), ("time_ms", pa.int64())])
# Folders that identify another table format.
_FOREIGN = {
    "_spark_metadata": "a stream of Spark's, whose own list says which of the files count",
    ".hoodie": "a Hudi table",
}
_ICEBERG = ".metadata.json"
# Spark's CAST silently drops a time of day from a date, and a time zone from a timestamp_ntz.
_TIME_OF_DAY = re.compile(r"\d[ T]+\S", re.ASCII)
_ZONE = re.compile(r"\d[ T].*[^\d:.\s]", re.ASCII | re.DOTALL)
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_log = logging.getLogger(__name__)


def listed_files(tree: ListedTree) -> pa.Table:
    """Return the files that may hold rows, sorted by name, with the columns of `LISTED`.

    Raises:
        SourceError: there are none, or the folder belongs to another table format.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    found = _Found(tree.root)
    walk(tree, found.add)
    files = pa.concat_tables([LISTED.empty_table(), *found.tables]).sort_by("name")
    empty = files.filter(pc.equal(files["size"], 0))
    if empty.num_rows:
        _log.warning(
            "%s files of %s are empty and no Parquet files; they stay outside of the table, such as %s.",
            empty.num_rows,
            tree.root,
            empty["name"][0].as_py(),
        )
        files = files.filter(pc.greater(files["size"], 0))
    if not files.num_rows:
        raise SourceError(
            f"{tree.root} holds no Parquet files, or is no folder.",
            remedy="Check the address; an empty table is made by DeltaWriteOperator.",
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
    one, other = ({(row["name"], row["size"], row["time_ms"]) for row in t.to_pylist()} for t in (before, after))
    raise SourceError(
        f"{tree.root} changed while it was converted, such as {min(one ^ other)[0]}; it was left as it is.",
        remedy="Stop what writes there, and run the task again.",
    )


@dataclass(slots=True)
class _Found:
    """Collects the files of a walk."""

    root: str
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, folder: Folder) -> list[str]:
        where = f"{self.root}/{folder.name}" if folder.name else self.root
        self._check(folder, where)
        kept = [at for at, base in enumerate(folder.bases) if not _is_hidden(base)]
        if kept:
            above = f"{folder.name}/" if folder.name else ""
            columns = (
                [above + folder.bases[at] for at in kept],
                [folder.sizes[at] for at in kept],
                [folder.times_ms[at] for at in kept],
            )
            self.tables.append(pa.table(dict(zip(LISTED.names, columns, strict=True)), schema=LISTED))
        return [name for name, _ in folder.folders if not _is_hidden(_base(name))]

    def _check(self, folder: Folder, where: str) -> None:
        inside = {_base(name) for name, _ in folder.folders}
        if folder.name and LOG_DIR in inside:
            raise SourceError(
                f"{where} is a Delta table of its own.", remedy="Convert the folders beside it, each as a table."
            )
        what = next((what for name, what in _FOREIGN.items() if name in inside), None)
        if _base(folder.name) == "metadata" and any(base.endswith(_ICEBERG) for base in folder.bases):
            what = "an Iceberg table"
        if what is not None:
            raise SourceError(
                f"{where} is, or holds, {what}: not every file in it counts.",
                remedy="Read it with an engine that knows it, and write the rows with DeltaWriteOperator.",
            )
        if folder.has_more:
            raise SourceError(
                f"{where} holds something that is neither a file nor a folder, such as a link, or a name that is no "
                "text; links are not followed, so rows could be missing.",
                remedy="Move it away, or put the files in its place.",
            )


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _is_hidden(base: str) -> bool:
    return (base.startswith(("_", ".")) and "=" not in base) or base.endswith("._COPYING_")


class FolderValues:
    """The partition values of files, by folder. Without partition columns, plain folder names are ignored."""

    def __init__(self, partitions: StructType) -> None:
        self._partitions = partitions
        self._known: dict[str, dict[str, str | None]] = {}

    def of(self, name: str) -> dict[str, str | None]:
        """Return the partition values of a file as the log spells them; `name` is its path below the root.

        Raises:
            InvalidRequestError: the folder names do not match the partition columns, or a value does not fit its type.
        """
        folder = name.rpartition("/")[0]
        found = self._known.get(folder)
        if found is None:
            found = self._known[folder] = dict(self._parsed(folder, name))
        return found

    def _parsed(self, folder: str, name: str) -> Iterator[tuple[str, str | None]]:
        spelled = [part.partition("=") for part in folder.split("/")] if folder else []
        columns = [_unescaped(column) if equals else None for column, equals, _ in spelled]
        wanted = list(self._partitions.names)
        if not wanted and not any(columns):
            return
        if [c if c is None else c.lower() for c in columns] != [w.lower() for w in wanted]:
            raise _other_folders(name, columns, wanted)
        for (_, _, text), column in zip(spelled, self._partitions, strict=True):
            yield column.name, _log_text(None if text == HIVE_NULL else _unescaped(text), column.type, name)


def _unescaped(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"The folder name {text!r} has an escape that is no text: {error}.", remedy="Rename the folder."
        ) from error


def _other_folders(name: str, columns: list[str | None], wanted: list[str]) -> InvalidRequestError:
    if wanted:
        return InvalidRequestError(
            f"partition_schema names ({', '.join(wanted)}), and the folders of {name} spell "
            f"({', '.join(column or 'no column' for column in columns)}).",
            remedy="Correct partition_schema, or move the files to folders such as "
            f"{'/'.join(f'{column}=...' for column in wanted)}.",
        )
    text = ", ".join(f"{column} STRING" for column in columns if column)
    return InvalidRequestError(
        f"The files are partitioned by folders, such as {name}, and partition_schema is not given.",
        remedy=f"Give the columns with their types, such as partition_schema='{text}'.",
    )


def _refuse(dropped: re.Pattern[str], text: str) -> None:
    if dropped.search(text):
        raise CorruptLogError("The type would drop a part of the text.", remedy="Leave that part out.")


def _log_text(text: str | None, data_type: DataType, name: str) -> str | None:
    """Return the value as the log spells it: in one canonical form, and in UTC for a timestamp."""
    if text is None or text == "":
        return None
    try:
        value = partition_scalar(text, data_type)
        match data_type:
            case PrimitiveType(kind) if kind in _INTEGERS:
                return str(int(text))
            case DecimalType():  # with all digits of its scale, which some readers require
                return format(value.as_py(), "f")
            case PrimitiveType("boolean"):
                return text.lower()
            case PrimitiveType("timestamp"):
                moment = parse_partition_value(text, data_type).astimezone(UTC)
                return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
            case PrimitiveType("date"):
                _refuse(_TIME_OF_DAY, text)
                return canonical_text(text, data_type)
            case PrimitiveType("timestamp_ntz"):
                _refuse(_ZONE, text)
                return str(parse_partition_value(text, data_type))
            case _:
                return text
    except (CorruptLogError, UnsupportedFeatureError) as error:
        raise InvalidRequestError(
            f"The folder of {name} says {text!r}, which is no {data_type}.",
            remedy="Correct the type in partition_schema (STRING takes every value), or rename the folder.",
        ) from error
