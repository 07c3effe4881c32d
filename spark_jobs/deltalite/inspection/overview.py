"""The facts of a table that a page shows: version, schema, properties, features, measures and the last commit.

An overview keeps values only, and no list of files, so that a process can hold the overviews of thousands of tables. A
later read takes the earlier overview, and sends two requests if there is no new commit. Texts are bounded
(`shown_texts.py`).

The measures of a table with very many files take seconds, because they plan an optimize. `read_overview` leaves them
out for such a table, and reads only the columns of the log that its totals need. `read_measures` reads them later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from deltalite.conditions import LogPosition
from deltalite.inspection.columns import ColumnRow, column_rows
from deltalite.inspection.commit_entries import CommitEntry, entry_of_version
from deltalite.inspection.commit_gaps import usual_gap_ms
from deltalite.inspection.due_steps import decide
from deltalite.inspection.file_layout import FileLayout, layout_of
from deltalite.inspection.file_totals import FileTotals, read_totals
from deltalite.inspection.health import TableHealth, read_health
from deltalite.inspection.shown_texts import shown_text
from deltalite.inspection.table_rows import StepOutcome
from deltalite.log.following import is_newest, position_at
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.protocol.features import supported_features
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

MAX_COLUMNS = 2_000
MAX_FILES_AT_ONCE = 50_000
"""An overview of a table with more files has no measures."""
_MAX_PROPERTIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeasures:
    """The measures of a version that need all facts of its files.

    - `steps`: the decision for each step of a maintenance.
    - `layout`: the classes of file sizes, and the largest partitions.
    """

    health: TableHealth
    steps: tuple[StepOutcome, ...]
    layout: FileLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """A table at its newest version.

    - `columns`: at most `MAX_COLUMNS` rows; `column_count` counts all.
    - `rows`: the rows, including soft-deleted rows; None if the statistics of a file lack the number.
    - `measures`: None for a table with more than `MAX_FILES_AT_ONCE` files.
    - `last_commit`: None if the log no longer holds the commit of the version.
    - `usual_gap_ms`: the usual milliseconds between loads; None if unknown.
    - `position`: where a later read continues.
    """

    version: int
    table_id: str
    description: str
    columns: tuple[ColumnRow, ...]
    column_count: int
    properties: Mapping[str, str]
    features: tuple[str, ...]
    min_reader_version: int
    min_writer_version: int
    files: int
    size_bytes: int
    rows: int | None
    deleted_rows: int
    measures: TableMeasures | None
    last_commit: CommitEntry | None
    usual_gap_ms: int | None
    position: LogPosition

    @property
    def live_rows(self) -> int | None:
        """The rows that are not soft-deleted; None if their number is unknown, or if the log contradicts it."""
        return None if self.rows is None or self.rows < self.deleted_rows else self.rows - self.deleted_rows

    @property
    def deleted_rows_ratio(self) -> float:
        """The share of soft-deleted rows; 0 if the number of live rows is unknown."""
        return self.deleted_rows / self.rows if self.rows and self.live_rows is not None else 0.0


def read_overview(
    store: LogStore, thresholds: Thresholds, *, now_ms: int, earlier: TableOverview | None = None
) -> TableOverview:
    """Read the newest version of a table, or return `earlier` if no commit follows it.

    Args:
        store: the store of the table.
        thresholds: the thresholds of the decisions.
        now_ms: the time of the measures, in milliseconds UTC.
        earlier: an earlier overview of the same table.

    Raises:
        DeltaLiteError: the table cannot be read; see `Snapshot.load`.
    """
    if earlier is not None and is_newest(store, earlier.position):
        return earlier
    snapshot = Snapshot.load(store)
    files, totals = _files_and_totals(snapshot)
    measures = None
    if files is not None:
        is_same_table = earlier is not None and earlier.table_id == snapshot.metadata.id
        earlier_measures = earlier.measures if earlier is not None and is_same_table else None
        measures = _measures_of(snapshot, files, thresholds, now_ms, earlier_measures)
    columns = list(column_rows(snapshot.schema, snapshot.partition_columns))
    properties = {
        shown_text(key): shown_text(value, name=key)
        for key, value in sorted(snapshot.configuration.items())[:_MAX_PROPERTIES]
    }
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return TableOverview(
        version=snapshot.version,
        table_id=metadata.id,
        description=shown_text(metadata.description, max_length=1_000),
        columns=tuple(map(_bounded_row, columns[:MAX_COLUMNS])),
        column_count=len(columns),
        properties=properties,
        features=tuple(map(shown_text, sorted(supported_features(protocol)))),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        files=totals.files,
        size_bytes=totals.size_bytes,
        rows=totals.rows,
        deleted_rows=totals.deleted_rows,
        measures=measures,
        last_commit=entry_of_version(store, snapshot),
        usual_gap_ms=usual_gap_ms(snapshot),
        position=position_at(store, snapshot.version),
    )


def read_measures(
    store: LogStore, version: int, thresholds: Thresholds, *, now_ms: int, earlier: TableMeasures | None = None
) -> TableMeasures:
    """Read the measures of a version.

    Args:
        store: the store of the table.
        version: the version.
        thresholds: the thresholds of the decisions.
        now_ms: the time of the measures, in milliseconds UTC.
        earlier: the measures of an earlier version of the same table.

    Raises:
        DeltaLiteError: the table cannot be read; see `Snapshot.load`.
    """
    snapshot = Snapshot.load(store, version)
    measures = _measures_of(snapshot, snapshot.files_with(), thresholds, now_ms, earlier)
    pa.default_memory_pool().release_unused()  # the columns of a million files, which the process would keep
    return measures


def _files_and_totals(snapshot: Snapshot) -> tuple[pa.Table | None, FileTotals]:
    """Return the files with all columns (None if there are very many), and the totals of the files.

    If `_last_checkpoint` says that the checkpoint is small, the checkpoint is read only once.
    """
    hint = None if snapshot.segment.checkpoint is None else read_last_checkpoint(snapshot.store)
    if hint is None or not 0 <= hint.size <= MAX_FILES_AT_ONCE:
        totals = read_totals(snapshot)
        if totals.files > MAX_FILES_AT_ONCE:
            return None, totals
    files = snapshot.files_with()
    return (files if files.num_rows <= MAX_FILES_AT_ONCE else None), FileTotals.of([files])


def _measures_of(
    snapshot: Snapshot, files: pa.Table, thresholds: Thresholds, now_ms: int, earlier: TableMeasures | None
) -> TableMeasures:
    earlier_health = None if earlier is None else earlier.health
    health = read_health(snapshot, thresholds, now_ms=now_ms, earlier=earlier_health, files=files)
    return TableMeasures(
        health=health, steps=tuple(map(StepOutcome.of, decide(health, thresholds))), layout=layout_of(snapshot, files)
    )


def _bounded_row(row: ColumnRow) -> ColumnRow:
    return replace(
        row,
        name=shown_text(row.name),
        type_text=shown_text(row.type_text),
        comment=shown_text(row.comment),
        rules=tuple(map(shown_text, row.rules)),
    )
