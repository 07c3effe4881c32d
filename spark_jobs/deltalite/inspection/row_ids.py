"""Comparison of the row ids of files with each other, and with the high water mark.

In a table with row tracking, a file of `n` rows has the row ids from its base row id on, `n` of them. Files never share
row ids, because each new file gets ids above the high water mark. A row that was copied keeps its id in a column of the
file, which this check does not read. Protocol: Row Tracking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.protocol.row_tracking import HIGHEST_ROW_ID

COLUMNS = ("path", "stats", "baseRowId", "defaultRowCommitVersion")
"""The fields of an `add` action that the check needs."""


def row_id_problems(files: pa.Table, version: int, high_water_mark: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of each file of a version whose row ids break the protocol.

    Args:
        files: the files of the version, with `COLUMNS`.
        version: the version.
        high_water_mark: the highest row id that the table has assigned.
    """
    counts = num_records(files["stats"])
    is_complete = pc.and_(
        pc.and_(pc.is_valid(files["baseRowId"]), pc.is_valid(files["defaultRowCommitVersion"])), pc.is_valid(counts)
    )
    for path in files["path"].filter(pc.invert(is_complete)).to_pylist():
        yield path, "The file has no base row id, no row commit version, or no number of rows."
    files = files.append_column("rows", counts).filter(is_complete).sort_by("baseRowId")
    late = files.filter(pc.greater(files["defaultRowCommitVersion"], version))
    for path, commit_version in zip(late["path"].to_pylist(), late["defaultRowCommitVersion"].to_pylist(), strict=True):
        yield path, f"The file has the row commit version {commit_version}, which is after version {version}."
    yield from _wrong_ranges(files, high_water_mark)


def _wrong_ranges(files: pa.Table, high_water_mark: int) -> Iterator[tuple[str, str]]:
    """Yield the files with row ids that another file has too, or that were never assigned. Files are sorted."""
    first = files["baseRowId"].to_numpy()
    rows = files["rows"].to_numpy()
    last = np.where(rows > HIGHEST_ROW_ID - first, HIGHEST_ROW_ID, first + rows - 1)
    highest_before = np.concatenate([[-1], np.maximum.accumulate(last)[:-1]]) if len(last) else last
    paths = files["path"]
    for at in np.flatnonzero((first < 0) | (last > high_water_mark) | ((first <= highest_before) & (rows > 0))):
        ids = f"The row ids of the file are {first[at]} to {last[at]}"
        if first[at] < 0 or last[at] > high_water_mark:
            yield paths[at].as_py(), f"{ids}, and the table has assigned only those up to {high_water_mark}."
        else:
            yield paths[at].as_py(), f"{ids}, and another file has the ids up to {highest_before[at]}."
