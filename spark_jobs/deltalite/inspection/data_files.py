"""Comparison of data files with the log.

Files arrive as tables of `add` actions and are checked in parallel, a bounded number at a time. A file must:

- exist, according to a listing
- have the size that its `add` action says
- have partition values of the types of their columns
- have statistics in the log that agree with its footer
- have a readable deletion vector, if it has one

A failed check is a `FileFault`. The caller knows which versions contain the file, and decides whether a fault matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Self

import pyarrow as pa

from deltalite.columnar.deletion_vectors.reading import vector_positions
from deltalite.columnar.parquet.file_columns import FileColumns, LayoutCache
from deltalite.columnar.parquet.files import open_parquet
from deltalite.columnar.parquet.legacy_calendar import calendar_of
from deltalite.columnar.reader.footer_leaves import FooterLeaves
from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.errors import CorruptDataFileError, CorruptLogError, UnsupportedFeatureError, UnsupportedStorageError
from deltalite.inspection.findings import FindingKind
from deltalite.inspection.footers import contradictions
from deltalite.inspection.presence import Absent, Presence
from deltalite.log.file_table import file_key
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import partition_scalar
from deltalite.protocol.paths import decode_path
from deltalite.sizes import counted
from deltalite.storage.log_store import LogStore

COLUMNS = ("path", "partitionValues", "size", "stats", "deletionVector")
"""The fields of an `add` action that the checks need."""
_FILES_IN_A_BATCH = 1_024
# A thread takes several files at once, because passing a file to a thread costs as much as the check.
_FILES_IN_A_TASK = 16
_MAX_THREADS = 16
_MAX_SHOWN_PROBLEMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """A fault of a data file.

    `key` is the file's identity (`file_key`). `is_fatal` is True if the fault makes the file's rows unreadable.
    """

    key: str
    path: str
    kind: FindingKind
    message: str
    is_fatal: bool


@dataclass(slots=True)
class CheckedAmount:
    """The amount of checked data: files and bytes according to the log, and the opened footers and deletion vectors."""

    files: int = 0
    size_bytes: int = 0
    footers: int = 0
    vectors: int = 0


class FileChecks:
    """The checks of one table's files. It caches the listings of folders, and is a context manager for its threads."""

    def __init__(self, store: LogStore, *, with_footers: bool) -> None:
        self._store = store
        self._with_footers = with_footers
        self._presence = Presence(store)
        self._layouts = LayoutCache()
        self._pool = ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="verify")
        self.checked_amount = CheckedAmount()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def inaccessible_folders(self) -> list[str]:
        """The folders that could not be listed; their files are not checked."""
        return self._presence.inaccessible_folders

    def check(self, adds: pa.Table, schema: TableSchema) -> Iterator[FileFault]:
        """Yield the faults of files, in order.

        `adds` is a table with `COLUMNS`, and `schema` is the table's schema at the version of these files.

        Raises:
            StorageError: storage does not answer.
        """
        for batch in adds.select(list(COLUMNS)).to_batches(max_chunksize=_FILES_IN_A_BATCH):
            rows = batch.to_pylist(maps_as_pydicts="lossy")
            sizes = self._presence.sizes([decode_path(row["path"]) for row in rows])
            self.checked_amount.files += len(rows)
            self.checked_amount.size_bytes += sum(row["size"] or 0 for row in rows)
            if self._with_footers:
                existing_files = [row for row, size in zip(rows, sizes, strict=True) if isinstance(size, int)]
                self.checked_amount.footers += len(existing_files)
                self.checked_amount.vectors += sum(row["deletionVector"] is not None for row in existing_files)
            starts = range(0, len(rows), _FILES_IN_A_TASK)
            row_parts = [rows[start : start + _FILES_IN_A_TASK] for start in starts]
            size_parts = [sizes[start : start + _FILES_IN_A_TASK] for start in starts]
            for faults in self._pool.map(self._check_rows, row_parts, size_parts, repeat(schema)):
                yield from faults

    def _check_rows(
        self, rows: list[dict[str, Any]], sizes: list[int | Absent], schema: TableSchema
    ) -> list[FileFault]:
        """Return the faults of several files. Runs in a thread."""
        return [fault for row, size in zip(rows, sizes, strict=True) for fault in self._faults(row, size, schema)]

    def _faults(self, row: Mapping[str, Any], size_bytes: int | Absent, schema: TableSchema) -> list[FileFault]:
        key, path = file_key(row["path"], row["deletionVector"]), decode_path(row["path"])

        def fault(kind: FindingKind, message: str, *, is_fatal: bool) -> FileFault:
            return FileFault(key=key, path=path, kind=kind, message=message, is_fatal=is_fatal)

        faults = [
            fault(FindingKind.WRONG_PARTITION_VALUE, problem, is_fatal=is_fatal)
            for problem, is_fatal in _partition_problems(row["partitionValues"] or {}, schema)
        ]
        if size_bytes is Absent.MISSING:
            return [*faults, fault(FindingKind.MISSING_FILE, "The data file does not exist.", is_fatal=True)]
        if isinstance(size_bytes, int) and size_bytes != row["size"]:
            message = f"The file has {counted(size_bytes, 'byte')}, but its `add` action says {row['size']}."
            faults.append(fault(FindingKind.WRONG_SIZE, message, is_fatal=False))
        if not self._with_footers or size_bytes is Absent.UNKNOWN:
            return faults
        try:
            num_rows, problems = self._footer_problems(path, row["stats"], schema)
        except (CorruptDataFileError, UnsupportedStorageError) as error:
            return [*faults, fault(FindingKind.UNREADABLE_FILE, error.problem, is_fatal=True)]
        if problems:
            note = f"; and {len(problems) - _MAX_SHOWN_PROBLEMS} more" if len(problems) > _MAX_SHOWN_PROBLEMS else ""
            message = f"{'; '.join(problems[:_MAX_SHOWN_PROBLEMS])}{note}."
            faults.append(fault(FindingKind.WRONG_STATISTICS, message[0].upper() + message[1:], is_fatal=False))
        if row["deletionVector"] is not None:
            problem = self._vector_problem(row["deletionVector"], num_rows)
            if problem is not None:
                faults.append(fault(FindingKind.BAD_DELETION_VECTOR, problem, is_fatal=True))
        return faults

    def _footer_problems(self, path: str, stats: str | None, schema: TableSchema) -> tuple[int, list[str]]:
        """Return the number of rows of a file, and the problems of its statistics.

        Raises:
            CorruptDataFileError, UnsupportedStorageError: the footer cannot be read.
        """
        with open_parquet(self._store, path) as parquet:
            footer = parquet.metadata
            parsed_stats = parse_stats(stats)
            if parsed_stats is None:
                problems = ["the statistics are not a JSON object"] if stats else []
                return footer.num_rows, problems
            columns = FileColumns(
                layout=self._layouts.of(parquet.schema_arrow),
                mode=schema.mode,
                file=path,
                leaf_conversion=lambda _field, _target: None,
            )
            footer_leaves = FooterLeaves(columns=columns, footer=footer, calendar=calendar_of(footer.metadata))
            return footer.num_rows, list(contradictions(parsed_stats, schema, footer_leaves))

    def _vector_problem(self, descriptor: Mapping[str, Any], num_rows: int) -> str | None:
        try:
            removed_rows = vector_positions(self._store, descriptor)
        except (CorruptDataFileError, UnsupportedStorageError) as error:
            return error.problem
        if len(removed_rows) and removed_rows[-1].as_py() >= num_rows:
            return (
                f"The deletion vector removes the row at index {removed_rows[-1].as_py()} (counted from 0), but the "
                f"file contains only {counted(num_rows, 'row')}."
            )
        return None


def _partition_problems(values: Mapping[str, str | None], schema: TableSchema) -> Iterator[tuple[str, bool]]:
    """Yield the problems of a file's partition values, and for each whether it makes the rows unreadable."""
    if not schema.partition_keys:
        return
    values_by_lower_name = {name.lower(): text for name, text in values.items()}
    for logical, physical in zip(schema.logical, schema.physical, strict=True):
        key = schema.partition_keys.get(physical.name)
        if key is None:
            continue
        if key.lower() not in values_by_lower_name:
            yield f"The `add` action contains no value for the partition column '{logical.name}'.", False
            continue
        try:
            partition_scalar(values_by_lower_name[key.lower()], logical.type)
        except (CorruptLogError, UnsupportedFeatureError) as error:
            yield f"Column '{logical.name}': {error.problem}", True
