"""The choice of the files that a run loads, decided without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from deltalite.loaded_files.keys import Booleans


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChoice:
    """The files that a run loads.

    - `files`: the files to load (`FILES`), the oldest first.
    - `new_files`: the files to load that are not in the record. With `force` they can be fewer than `files`.
    - `listed_count`: the number of listed files.
    - `skipped_count`: the number of listed files that are left out, because an earlier run has loaded them.
    """

    files: pa.Table
    new_files: pa.Table
    listed_count: int
    skipped_count: int

    @property
    def metrics(self) -> Mapping[str, int]:
        """The operation metrics: numbers of files and bytes, and the range of modification times (milliseconds UTC)."""
        metrics = {
            "numLoadedFiles": self.files.num_rows,
            "numLoadedBytes": int(self.files["size_bytes"].to_numpy().sum()),
            "numSkippedFiles": self.skipped_count,
            "numRemainingFiles": self.listed_count - self.skipped_count - self.files.num_rows,
        }
        if self.files.num_rows:
            times = self.files["modified_ms"].to_numpy()
            metrics |= {"minModificationTime": int(times.min()), "maxModificationTime": int(times.max())}
        return metrics

    @property
    def metrics_without_load(self) -> Mapping[str, int]:
        """The metrics of a run that only checks the files, so that all of them remain."""
        remaining_count = self.listed_count - self.skipped_count
        return {**self.metrics, "numLoadedFiles": 0, "numLoadedBytes": 0, "numRemainingFiles": remaining_count}


def sizes_by_address(files: pa.Table) -> Mapping[str, int]:
    """Return the sizes of files (`FILES`) in bytes, by their addresses."""
    return dict(zip(files["address"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def choose_files(
    listed: pa.Table, is_loaded: Booleans, *, force: bool, max_files: int | None, max_bytes: int | None
) -> FileChoice:
    """Return the files to load among the listed ones, which are sorted by time.

    `max_files` and `max_bytes` limit the load. At least one file is chosen, so that a large file cannot block the rest.
    """
    is_wanted = np.ones(listed.num_rows, np.bool_) if force else ~is_loaded
    rows = np.flatnonzero(is_wanted)
    skipped_count = listed.num_rows - len(rows)
    if max_files is not None:
        rows = rows[:max_files]
    if max_bytes is not None and len(rows):
        total_bytes = np.cumsum(listed["size_bytes"].to_numpy()[rows])
        rows = rows[: max(int(np.searchsorted(total_bytes, max_bytes, side="right")), 1)]
    return FileChoice(
        files=listed.take(pa.array(rows)),
        new_files=listed.take(pa.array(rows[~is_loaded[rows]])),
        listed_count=listed.num_rows,
        skipped_count=skipped_count,
    )
