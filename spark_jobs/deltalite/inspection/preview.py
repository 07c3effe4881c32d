"""Some rows of a version as texts, for a page: bounded in rows, columns, bytes and seconds.

The reader respects deletion vectors, partitions and column mapping. It reads one file after the other, and stops at the
first limit. Python cannot interrupt a read of storage, so a read that hangs ends later than its limit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
from pyarrow import types

from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.predicates.where import parse_where
from deltalite.columnar.reader.data_file import data_files
from deltalite.columnar.reader.stream import read_files
from deltalite.columnar.skipping.files import prune
from deltalite.inspection.shown_texts import MAX_LENGTH, shown_text
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

MAX_ROWS = 100
MAX_COLUMNS = 100
MAX_BYTES = 256 * 1024
"""The limit on the characters of all cells, which is about their bytes."""
MAX_READ_BYTES = 256 * 1024 * 1024
"""The limit on the bytes of decoded columns, for a filter that few rows match."""
MAX_CONDITIONS, MAX_CONDITION_LENGTH = 5, 200
_BATCH_ROWS = 1_024
# A nested value may have millions of items, and a cell shows few.
_MAX_ITEMS, _MAX_DEPTH = 50, 10


class Limit(StrEnum):
    """The limit that ended a preview."""

    NONE = "none"
    ROWS = "rows"
    BYTES = "bytes"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPreview:
    """Rows of a version as texts; None stands for NULL.

    - `columns`: the names of at most `MAX_COLUMNS` columns; `column_count` counts all.
    - `limit`: the limit after which the version may have more rows that match.
    """

    columns: tuple[str, ...]
    column_count: int
    rows: tuple[tuple[str | None, ...], ...]
    limit: Limit


def read_preview(
    store: LogStore,
    version: int,
    conditions: Sequence[str],
    *,
    max_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> RowPreview:
    """Read the first rows of a version for which all conditions are true.

    Args:
        store: the store of the table.
        version: the version.
        conditions: comparisons, as `parse_where` reads them.
        max_seconds: the preview ends after the batch in which this time has passed.
        clock: returns seconds.

    Raises:
        DeltaLiteError: a condition is invalid, or the version or its rows cannot be read.
    """
    ends_at = clock() + max_seconds
    snapshot = Snapshot.load(store, version)
    predicate = from_filters(parse_where(conditions, snapshot.schema), snapshot.schema)
    names = [field.name for field in snapshot.schema.fields][:MAX_COLUMNS]
    files = prune(snapshot.files, predicate, snapshot.table_schema)
    rows: list[tuple[str | None, ...]] = []
    shown_bytes = read_bytes = 0
    limit = Limit.NONE
    batches = read_files(
        store,
        data_files(files),
        snapshot.table_schema,
        columns=names,
        predicate=predicate,
        batch_size=_BATCH_ROWS,
        use_threads=False,
    )
    for batch in batches:
        read_bytes += batch.nbytes
        for number in range(min(batch.num_rows, MAX_ROWS + 1 - len(rows))):
            if len(rows) == MAX_ROWS:
                limit = Limit.ROWS
                break
            row = tuple(_cell(column[number]) for column in batch.columns)
            shown_bytes += sum(len(text) for text in row if text is not None)
            if shown_bytes > MAX_BYTES:
                limit = Limit.BYTES
                break
            rows.append(row)
        if limit is Limit.NONE and read_bytes > MAX_READ_BYTES:
            limit = Limit.BYTES
        if limit is Limit.NONE and clock() > ends_at:
            limit = Limit.SECONDS
        if limit is not Limit.NONE:
            break
    return RowPreview(
        columns=tuple(map(shown_text, names)),
        column_count=len(snapshot.schema.fields),
        rows=tuple(rows),
        limit=limit,
    )


def _cell(scalar: pa.Scalar) -> str | None:
    value = _plain(scalar, 0)
    if value is None:
        return None
    if isinstance(value, str):
        return shown_text(value)
    return shown_text(json.dumps(value, ensure_ascii=False, default=str))


def _plain(scalar: pa.Scalar, depth: int) -> Any:
    """Return a value of JSON with a bounded number of items. A binary is its hexadecimal digits."""
    if not scalar.is_valid:
        return None
    data_type = scalar.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _plain(scalar.value, depth)
    if types.is_nested(data_type):
        if depth == _MAX_DEPTH:
            return "…"
        return _plain_nested(scalar, depth + 1)
    if types.is_temporal(data_type):  # Python's calendar ends at the year 9999
        return scalar.cast(pa.string()).as_py()
    value = scalar.as_py()
    if isinstance(value, bytes):
        return value[: MAX_LENGTH // 2 + 1].hex()
    return value if isinstance(value, bool | int | float | str) else str(value)


def _plain_nested(scalar: pa.Scalar, depth: int) -> Any:
    data_type = scalar.type
    if types.is_struct(data_type):
        return {field.name: _plain(scalar[number], depth) for number, field in enumerate(data_type)}
    items = scalar.values[:_MAX_ITEMS]
    if types.is_map(data_type):
        return {str(_plain(entry[0], depth)): _plain(entry[1], depth) for entry in items}
    return [_plain(item, depth) for item in items]
