"""The files of one batch of an optimize: written, checked against the old files, and assigned to their bins.

The number of the Spark task that wrote a file identifies the bin of the file. The new files of a bin must hold exactly
as many live rows as its old files. The row counts of old files come from their statistics or, if these are wrong or
missing, from their footers. A batch with a missing or an extra row is never committed. Rows only move, so the rules of
the table are not checked again. Protocol: Add File and Remove File (`dataChange`, `tags`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import publish_files, write_layout
from deltalite.commands.optimize.table_plan import OptimizePlan
from deltalite.errors import CorruptDataFileError, SourceError
from deltalite.log.file_table import key_column, removes_of
from deltalite.phases import PHASES, Phase
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.protocol.paths import decode_path
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.layout.rearranging import UNION_SETTINGS, BinJob, gathered_bins, jobs_for
from deltalite.spark.layout.z_order import ROW_GROUPS_OF_FILE, Cube, ordered_cubes
from deltalite.spark.runtime.session import settings
from deltalite.spark.write.staging import DataFile, StagedWrite
from deltalite.upkeep.optimize_plan import CUBE_ID_TAG, ROOM_TAG, TARGET_SIZE_TAG, Bin, Candidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

_MIN_ROW_GROUP_BYTES, _MAX_ROW_GROUP_BYTES = 1024 * 1024, 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBin:
    """The keys of the old files and the actions of a bin, or of a file without rows that is only removed."""

    keys: frozenset[str]
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBins:
    """The bins of one commit. `staging` holds the new files."""

    bins: tuple[WrittenBin, ...]
    staging: StagedWrite

    @property
    def adds(self) -> tuple[AddFile, ...]:
        """The new files."""
        return tuple(add for written_bin in self.bins for add in written_bin.adds)

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        """The old files."""
        return tuple(remove for written_bin in self.bins for remove in written_bin.removes)

    @property
    def keys(self) -> frozenset[str]:
        """The keys (`file_key`) of the old files."""
        return frozenset().union(*(written_bin.keys for written_bin in self.bins))

    def drop_changed(self, active: frozenset[str]) -> WrittenBins:
        """Remove the new files of the bins with an old file that is not `active`, and return the other bins."""
        changed_bins = [written_bin for written_bin in self.bins if not written_bin.keys <= active]
        self.staging.withdraw({decode_path(add.path) for changed_bin in changed_bins for add in changed_bin.adds})
        return replace(self, bins=tuple(written_bin for written_bin in self.bins if written_bin.keys <= active))


def write_bins(
    spark: SparkSession,
    base: Snapshot,
    target: WriteTarget,
    plan: OptimizePlan,
    bins: Sequence[Bin],
    empty_files: Sequence[Candidate],
    stack: ExitStack,
) -> WrittenBins:
    """Write the rows of the bins, and return the files of the commit. The exit of `stack` removes uncommitted files.

    Raises:
        CorruptDataFileError: a file cannot be read, or has another number of rows than the log says.
        StorageError, StoragePermissionError: the table's folder cannot be written.
    """
    PHASES.begin(Phase.WRITE)
    writer = _Writer(spark, base, target, plan, stack)
    adds: dict[int, list[AddFile]] = {number: [] for number in range(len(bins))}
    for job in writer.jobs(bins):
        for number, add in writer.write(bins, job):
            adds[number].append(add)
    _check_row_counts(base.store, bins, adds)
    _check_files_have_no_rows(base.store, empty_files)
    new_files_of_bins = (_with_tags(adds[number], plan, file_bin) for number, file_bin in enumerate(bins))
    rewritten = zip((file_bin.files for file_bin in bins), new_files_of_bins, strict=True)
    old_and_new_files = [*rewritten, *(((file,), ()) for file in empty_files)]
    deletion_ms = now_ms()
    written = tuple(
        _written_bin(plan, old_files, tuple(new_files), deletion_ms) for old_files, new_files in old_and_new_files
    )
    return WrittenBins(bins=written, staging=writer.staging)


class _Writer:
    """Writes the bins of one batch, in one job or several."""

    def __init__(
        self, spark: SparkSession, base: Snapshot, target: WriteTarget, plan: OptimizePlan, stack: ExitStack
    ) -> None:
        self._spark = spark
        self._base = base
        self._target = target
        self._plan = plan
        layout = replace(write_layout(target, optimize=False), open_files=1)
        if plan.order is not None:
            wanted_row_group_bytes = plan.target_bytes // ROW_GROUPS_OF_FILE
            row_group_bytes = min(max(wanted_row_group_bytes, _MIN_ROW_GROUP_BYTES), _MAX_ROW_GROUP_BYTES)
            layout = replace(layout, row_group_bytes=row_group_bytes)
        self.staging = stack.enter_context(StagedWrite(folder_of(spark, base.store.root), layout))

    def jobs(self, bins: Sequence[Bin]) -> list[BinJob]:
        """Return the Spark jobs that write the bins."""
        if self._plan.order is not None:
            return [BinJob(bins=tuple(range(len(bins))), shuffles=True)] if bins else []
        return jobs_for([file_bin.live_bytes for file_bin in bins])

    def write(self, bins: Sequence[Bin], job: BinJob) -> list[tuple[int, AddFile]]:
        """Write the new files of a job, and return each file with the number of its bin."""
        job_bins = [bins[number] for number in job.bins]
        file_numbers = [[file.number for file in file_bin.files] for file_bin in job_bins]
        order = self._plan.order
        if order is not None:
            cubes = [
                Cube(files=numbers, outputs=file_bin.outputs, row_count=_live_row_count(file_bin))
                for numbers, file_bin in zip(file_numbers, job_bins, strict=True)
            ]
            frame = ordered_cubes(self._spark, self._base, self._plan.files, cubes, order.columns, curve=order.curve)
        else:
            frame = gathered_bins(self._spark, self._base, self._plan.files, file_numbers, shuffles=job.shuffles)
        with settings(self._spark, UNION_SETTINGS):
            try:
                staged_files = self.staging.write(
                    frame, self._target.copied_table, [], known_values=self._partition_values(job_bins)
                )
            except SourceError as error:
                # The job reads only the table, so raise Spark's error, which `reading_table` explains.
                if error.__cause__ is None:
                    raise
                raise error.__cause__ from None
        published = publish_files(self._base.store, self.staging, staged_files, self._target, data_change=False)
        bin_of_task = [
            number for number, file_bin in zip(job.bins, job_bins, strict=True) for _ in range(file_bin.outputs)
        ]
        files_and_adds = zip(published.staged_files, published.adds, strict=True)
        return [(bin_of_task[_task_number(file)], add) for file, add in files_and_adds]

    def _partition_values(self, bins: Sequence[Bin]) -> set[str]:
        """Return the partition values of the bins, as the log spells them."""
        first_files = [file_bin.files[0].number for file_bin in bins]
        values_of_bins = self._plan.files["partitionValues"].take(first_files).to_pylist()
        return {text for values in values_of_bins for _, text in values or () if text is not None}


def active_keys(base: Snapshot, plan: OptimizePlan) -> frozenset[str]:
    """Return the keys of the plan's files that are active in a newer snapshot."""
    planned_keys = pa.array(key_column(plan.files).to_pylist(), pa.string())
    keys = key_column(base.files)
    return frozenset(keys.filter(pc.is_in(keys, value_set=planned_keys)).to_pylist())


def keys_of(plan: OptimizePlan, files: Sequence[Candidate]) -> frozenset[str]:
    """Return the `file_key` of each of these files."""
    rows = plan.files.take(pa.array([file.number for file in files], pa.int64()))
    return frozenset(key_column(rows).to_pylist())


def _written_bin(
    plan: OptimizePlan, files: Sequence[Candidate], adds: tuple[AddFile, ...], deletion_ms: int
) -> WrittenBin:
    rows = plan.files.take(pa.array([file.number for file in files], pa.int64()))
    removes = tuple(removes_of(rows, deletion_timestamp_ms=deletion_ms, data_change=False))
    return WrittenBin(keys=frozenset(key_column(rows).to_pylist()), adds=adds, removes=removes)


def _with_tags(adds: Sequence[AddFile], plan: OptimizePlan, file_bin: Bin) -> list[AddFile]:
    """Return the new files of one bin with the tags by which a later run recognizes them.

    The files get the partition values of the old files as the log spells them, because folder names are ambiguous for
    some values.
    """
    first_file = file_bin.files[0]
    tags: Mapping[str, str] = {TARGET_SIZE_TAG: str(plan.target_bytes)}
    provider = None if plan.order is None else plan.order.provider
    if plan.in_place:
        tags, provider = first_file.tags, first_file.clustering_provider
    elif plan.order is not None:
        tags = {**tags, **plan.order.tags, CUBE_ID_TAG: str(uuid.uuid4())}
    else:
        tags = {**tags, ROOM_TAG: str(file_bin.room)}
    (values,) = plan.files["partitionValues"].take([first_file.number]).to_pylist(maps_as_pydicts="strict")
    return [
        replace(add, tags={**(add.tags or {}), **tags}, partition_values=values or {}, clustering_provider=provider)
        for add in adds
    ]


def _task_number(file: DataFile) -> int:
    """Return the number of the Spark task that wrote the file."""
    if file.task is None:
        raise CorruptDataFileError(
            f"Spark wrote the file {file.name!r}. Its name lacks the number of the Spark task. Nothing was committed.",
            remedy="Optimize the table with Spark's default file committer.",
        )
    return file.task


def _live_row_count(file_bin: Bin) -> int | None:
    """Return the number of live rows of a bin, or None if a file has no statistics."""
    counts = [None if file.records is None else file.records - (file.deleted or 0) for file in file_bin.files]
    return None if None in counts else sum(count or 0 for count in counts)


def _check_row_counts(store: LogStore, bins: Sequence[Bin], adds: Mapping[int, Sequence[AddFile]]) -> None:
    """Check that the new files of each bin have as many rows as its old files have live rows."""
    for number, file_bin in enumerate(bins):
        written_rows = sum(_num_records(add) for add in adds[number])
        if written_rows == _live_row_count(file_bin):
            continue  # the statistics agree with the new files, so the old footers need not be read
        if written_rows != _live_row_count_by_footers(store, file_bin.files):
            raise _row_count_error(store, file_bin.files, f"the optimize read {counted(written_rows, 'row')}")


def _check_files_have_no_rows(store: LogStore, files: Sequence[Candidate]) -> None:
    """Check by their footers that the files have no live rows."""
    if files and (live_rows := _live_row_count_by_footers(store, files)):
        raise _row_count_error(
            store, files, f"the log records no live row, but the files have {counted(live_rows, 'live row')}"
        )


def _row_count_error(store: LogStore, files: Sequence[Candidate], difference: str) -> CorruptDataFileError:
    return CorruptDataFileError(
        f"The rows of {counted(len(files), 'file')} of {store.root}, such as {files[0].path}, differ from the log: "
        f"{difference}. The files were not changed.",
        remedy="Check the table with `deltalite verify`.",
    )


def _live_row_count_by_footers(store: LogStore, files: Sequence[Candidate]) -> int:
    all_rows: int = sum(footer.num_rows for footer in read_footers(store, [decode_path(file.path) for file in files]))
    return all_rows - sum(file.deleted or 0 for file in files)


def _num_records(add: AddFile) -> int:
    stats = parse_stats(add.stats)
    return 0 if stats is None else stats.num_records or 0
