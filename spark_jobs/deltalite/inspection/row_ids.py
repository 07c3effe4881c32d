"""Comparison of the row ids of files with each other, and with the high water mark.

In a table with row tracking, a file of `n` rows has `n` consecutive row ids, which begin at its base row id. Files
never share row ids, because each new file gets ids above the high water mark. A copied row keeps its old id in a column
of the file. This check does not read that column. Protocol: Row Tracking.
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
    """Yield the path and the problem of each file of a version with row ids that break the protocol.

    Args:
        files: the files of the version, with `COLUMNS`.
        version: the version.
        high_water_mark: the highest row id that the table has assigned.
    """
    record_counts = num_records(files["stats"])
    is_complete = pc.and_(
        pc.and_(pc.is_valid(files["baseRowId"]), pc.is_valid(files["defaultRowCommitVersion"])),
        pc.is_valid(record_counts),
    )
    for path in files["path"].filter(pc.invert(is_complete)).to_pylist():
        yield path, "The `add` action contains no base row id, no row commit version, or no number of rows."
    files = files.append_column("rows", record_counts).filter(is_complete).sort_by("baseRowId")
    files_of_later_versions = files.filter(pc.greater(files["defaultRowCommitVersion"], version))
    later_paths = files_of_later_versions["path"].to_pylist()
    later_versions = files_of_later_versions["defaultRowCommitVersion"].to_pylist()
    for path, commit_version in zip(later_paths, later_versions, strict=True):
        yield path, f"The file has the row commit version {commit_version}, which is after version {version}."
    yield from _wrong_ranges(files, high_water_mark)


def _wrong_ranges(files: pa.Table, high_water_mark: int) -> Iterator[tuple[str, str]]:
    """Yield the files with row ids that another file has too, or that the table never assigned.

    `files` are sorted by base row id.
    """
    first_ids = files["baseRowId"].to_numpy()
    rows = files["rows"].to_numpy()
    largest_counts = HIGHEST_ROW_ID - np.maximum(first_ids, 0)  # a malformed negative id must not overflow
    last_ids = np.where(rows > largest_counts, HIGHEST_ROW_ID, first_ids + rows - 1)
    highest_before = np.concatenate([[-1], np.maximum.accumulate(last_ids)[:-1]]) if len(last_ids) else last_ids
    never_assigned = (first_ids < 0) | (last_ids > high_water_mark)
    shared = (first_ids <= highest_before) & (rows > 0)
    for index in np.flatnonzero(never_assigned | shared):
        path = files["path"][index].as_py()
        ids = f"The row ids of the file are {first_ids[index]} to {last_ids[index]}"
        if never_assigned[index]:
            yield path, f"{ids}, but the table has assigned only ids up to {high_water_mark}."
        else:
            yield path, f"{ids}, but another file already has the ids up to {highest_before[index]}."
