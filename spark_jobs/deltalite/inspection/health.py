"""The health of a table: measures that say which maintenance is due. They come from the log alone, without Spark.

- An optimize is predicted by the rules of its plan (`upkeep/optimize_prediction.py`), so the prediction considers the
  tags of files that an earlier optimize wrote.
- Dead bytes are the sizes of removed files whose retention has passed. The log still names these files, no active file
  has their path, and no vacuum has deleted them. The number is a lower limit: a checkpoint leaves out removed files
  whose retention has passed, and the log does not name files of killed jobs.

`measure` takes a snapshot and the last vacuum, and reads only the snapshot. `read_health` also searches the log for the
last vacuum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.inspection.last_vacuum import LastVacuum, find_last_vacuum
from deltalite.log.file_table import bytes_of, deleted_rows_of, rewrite_noncanonical_paths
from deltalite.protocol import properties as props
from deltalite.protocol.clustering import clustering_columns, column_text, logical_paths
from deltalite.protocol.features import supported_features
from deltalite.protocol.paths import canonical_path
from deltalite.requests import DEFAULT_COMMIT_BYTES, Thresholds
from deltalite.snapshot import Snapshot
from deltalite.upkeep.optimize_candidates import small_file_bytes, target_file_bytes
from deltalite.upkeep.optimize_prediction import Prediction, predict_clustering, predict_packing

OPEN_COST_BYTES = 4 * 1024 * 1024
"""The cost of opening a file, as bytes that could be read instead. Spark: spark.sql.files.openCostInBytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The measures of one version of a table.

    - `small_files`, `small_bytes`: files below three quarters of the target file size, and their bytes.
    - `files_to_rewrite`, `bytes_to_rewrite`, `new_files`: the prediction of an optimize.
    - `rows`: the rows, including soft-deleted rows; None if the statistics of a file lack the number.
    - `commits_since_checkpoint`: the commits that a reader reads after the checkpoint; all commits without one.
    - `checkpoint_interval`: `delta.checkpointInterval` of the table.
    - `dead_files`, `dead_bytes`: removed files whose retention has passed, and their bytes.
    - `retained_bytes`: the bytes of removed files that the retention still keeps.
    - `last_vacuum`, `days_since_vacuum`: None if the log shows no vacuum.
    - `commits_since_vacuum`: None if the version of the last vacuum is unknown.
    - `age_days`: the days since the table was created; None if the table does not record it.
    """

    version: int
    files: int
    size_bytes: int
    small_files: int
    small_bytes: int
    files_to_rewrite: int
    bytes_to_rewrite: int
    new_files: int
    rows: int | None
    deleted_rows: int
    commits_since_checkpoint: int
    checkpoint_interval: int
    dead_files: int
    dead_bytes: int
    retained_bytes: int
    last_vacuum: LastVacuum | None
    days_since_vacuum: float | None
    commits_since_vacuum: int | None
    age_days: float | None

    @property
    def deleted_rows_ratio(self) -> float:
        """The share of soft-deleted rows; 0 if the number of rows is unknown."""
        return self.deleted_rows / self.rows if self.rows else 0.0

    @property
    def gain_bytes(self) -> int:
        """The bytes that the maintenance saves. Each saved file or commit counts as `OPEN_COST_BYTES`."""
        saved_files = max(0, self.files_to_rewrite - self.new_files)
        return OPEN_COST_BYTES * (saved_files + self.commits_since_checkpoint) + self.dead_bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the measures that reports show, as JSON values."""
        return {
            "version": self.version,
            "numFiles": self.files,
            "sizeInBytes": self.size_bytes,
            "numSmallFiles": self.small_files,
            "smallFileBytes": self.small_bytes,
            "numFilesToRewrite": self.files_to_rewrite,
            "bytesToRewrite": self.bytes_to_rewrite,
            "deletedRowsRatio": round(self.deleted_rows_ratio, 4),
            "commitsSinceCheckpoint": self.commits_since_checkpoint,
            "deadBytes": self.dead_bytes,
            "retainedBytes": self.retained_bytes,
            "daysSinceVacuum": None if self.days_since_vacuum is None else round(self.days_since_vacuum, 1),
        }


def read_health(
    snapshot: Snapshot,
    thresholds: Thresholds,
    *,
    now_ms: int,
    earlier: TableHealth | None = None,
    files: pa.Table | None = None,
) -> TableHealth:
    """Find the last vacuum of a snapshot's table, and return the measures.

    `earlier` has the measures of an earlier version. The search then reads only the commits after this version.
    `files` are the files of the snapshot with all columns, for a caller that has read them.

    Raises:
        DeltaLiteError: as `find_last_vacuum`, or the files of the snapshot cannot be read.
    """
    if earlier is None or earlier.version > snapshot.version:  # the table was recreated
        vacuum = find_last_vacuum(snapshot)
    else:
        vacuum = find_last_vacuum(snapshot, after_version=earlier.version, earlier=earlier.last_vacuum)
    return measure(snapshot, vacuum, thresholds, now_ms=now_ms, files=files)


def measure(
    snapshot: Snapshot,
    vacuum: LastVacuum | None,
    thresholds: Thresholds,
    *,
    now_ms: int,
    files: pa.Table | None = None,
) -> TableHealth:
    """Return the measures of a snapshot.

    Args:
        snapshot: the snapshot.
        vacuum: the last vacuum of the table.
        thresholds: the target file size, and the limit on soft-deleted rows of a file.
        now_ms: the time of the measures, in milliseconds UTC.
        files: the files of the snapshot with all columns; None to read them.
    """
    files = (snapshot.files_with() if files is None else files).combine_chunks()
    target_bytes = target_file_bytes(snapshot.configuration, thresholds.target_file_size)
    records = num_records(files["stats"])
    prediction = _prediction(snapshot, files, records, thresholds, target_bytes)
    small_files = files.filter(pc.less(files["size"], small_file_bytes(target_bytes)))
    dead_files, retained_files = _removed_files(snapshot, files, vacuum, now_ms)
    checkpoint = snapshot.segment.checkpoint
    created_ms = snapshot.metadata.created_time_ms
    return TableHealth(
        version=snapshot.version,
        files=files.num_rows,
        size_bytes=bytes_of(files),
        small_files=small_files.num_rows,
        small_bytes=bytes_of(small_files),
        files_to_rewrite=prediction.files,
        bytes_to_rewrite=prediction.size_bytes,
        new_files=prediction.new_files,
        rows=None if records.null_count else pc.sum(records).as_py() or 0,
        deleted_rows=deleted_rows_of(files),
        commits_since_checkpoint=snapshot.version - (-1 if checkpoint is None else checkpoint.version),
        checkpoint_interval=props.CHECKPOINT_INTERVAL.of(snapshot.configuration),
        dead_files=dead_files.num_rows,
        dead_bytes=bytes_of(dead_files),
        retained_bytes=bytes_of(retained_files),
        last_vacuum=vacuum,
        days_since_vacuum=None if vacuum is None else _days(now_ms - vacuum.time_ms),
        commits_since_vacuum=None if vacuum is None or vacuum.version is None else snapshot.version - vacuum.version,
        age_days=None if created_ms is None else _days(now_ms - created_ms),
    )


def _prediction(
    snapshot: Snapshot, files: pa.Table, records: pa.ChunkedArray, thresholds: Thresholds, target_bytes: int
) -> Prediction:
    """Predict an optimize of the whole table."""
    max_deleted_ratio = thresholds.max_deleted_rows_ratio
    if columns := _clustering_texts(snapshot):
        return predict_clustering(
            files,
            records,
            columns,
            target_bytes=target_bytes,
            max_deleted_ratio=max_deleted_ratio,
            cube_bytes=DEFAULT_COMMIT_BYTES,
        )
    return predict_packing(
        files,
        records,
        tuple(snapshot.table_schema.partition_keys.values()),
        target_bytes=target_bytes,
        min_bytes=small_file_bytes(target_bytes),
        max_deleted_ratio=max_deleted_ratio,
    )


def _clustering_texts(snapshot: Snapshot) -> list[str]:
    """Return the clustering columns as the tags of files name them; empty if the table is not clustered."""
    if "clustering" not in supported_features(snapshot.protocol):
        return []
    columns = clustering_columns(snapshot.domains)
    return [column_text(path) for path in logical_paths(columns, snapshot.table_schema)]


def _removed_files(
    snapshot: Snapshot, files: pa.Table, vacuum: LastVacuum | None, now_ms: int
) -> tuple[pa.Table, pa.Table]:
    """Return the removed files whose retention has passed, and those that the retention keeps, with `path` and `size`.

    A file that only got another deletion vector is removed and added by the same path, so it is not dead. The result
    omits the removed files whose retention had passed at the time of `vacuum`, because the vacuum deleted them.
    """
    tombstones = snapshot.tombstones(("path", "deletionTimestamp", "size"))
    tombstones = pa.table(
        {
            "path": rewrite_noncanonical_paths(tombstones["path"], canonical_path),
            "time": pc.fill_null(tombstones["deletionTimestamp"], 0),
            "size": pc.fill_null(tombstones["size"], 0),
        }
    )
    active_paths = rewrite_noncanonical_paths(files["path"], canonical_path)
    # The removed paths are the set to search in, because there are mostly fewer of them than active paths.
    is_removed = pc.is_in(active_paths, value_set=tombstones["path"].combine_chunks())
    re_added_paths = active_paths.filter(is_removed).combine_chunks()
    tombstones = tombstones.filter(pc.invert(pc.is_in(tombstones["path"], value_set=re_added_paths)))
    by_path = tombstones.group_by("path").aggregate([("time", "max"), ("size", "max")])
    files_left = pa.table({"path": by_path["path"], "time": by_path["time_max"], "size": by_path["size_max"]})
    retention_ms = props.DELETED_FILE_RETENTION_MS.of(snapshot.configuration)
    if vacuum is not None:
        files_left = files_left.filter(pc.greater_equal(files_left["time"], vacuum.time_ms - retention_ms))
    is_expired = pc.less(files_left["time"], now_ms - retention_ms)
    return files_left.filter(is_expired), files_left.filter(pc.invert(is_expired))


def _days(milliseconds: int) -> float:
    return max(0, milliseconds) / props.DAY_MS
