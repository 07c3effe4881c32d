"""The facts of a table that a page shows: version, schema, properties, features, health and the last commit.

An overview keeps values only, and no list of files, so that a process can hold the overviews of thousands of tables. A
later read takes the earlier overview: without a new commit it costs two requests. Texts are bounded (`shown_texts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.conditions import LogPosition
from deltalite.inspection.columns import ColumnRow, column_rows
from deltalite.inspection.commit_entries import CommitEntry, entry_of_version
from deltalite.inspection.due_steps import decide
from deltalite.inspection.file_layout import FileLayout, layout_of
from deltalite.inspection.health import TableHealth, read_health
from deltalite.inspection.shown_texts import shown_text
from deltalite.inspection.table_rows import StepOutcome
from deltalite.log.following import is_newest, position_at
from deltalite.protocol.features import supported_features
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

MAX_COLUMNS = 2_000
_MAX_PROPERTIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """A table at its newest version.

    - `columns`: at most `MAX_COLUMNS` rows; `column_count` counts all.
    - `steps`: the decision for each step of a maintenance.
    - `layout`: the classes of file sizes, and the largest partitions.
    - `last_commit`: None if the log no longer holds the commit of the version.
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
    health: TableHealth
    steps: tuple[StepOutcome, ...]
    layout: FileLayout
    last_commit: CommitEntry | None
    position: LogPosition

    @property
    def live_rows(self) -> int | None:
        """The rows that are not soft-deleted; None if the statistics of a file lack the number."""
        return None if self.health.rows is None else self.health.rows - self.health.deleted_rows


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
    is_same_table = earlier is not None and earlier.table_id == snapshot.metadata.id
    earlier_health = earlier.health if earlier is not None and is_same_table else None
    files = snapshot.files_with()
    health = read_health(snapshot, thresholds, now_ms=now_ms, earlier=earlier_health, files=files)
    columns = [_bounded(row) for row in column_rows(snapshot.schema, snapshot.partition_columns)]
    properties = {
        shown_text(key): shown_text(value, name=key)
        for key, value in sorted(snapshot.configuration.items())[:_MAX_PROPERTIES]
    }
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return TableOverview(
        version=snapshot.version,
        table_id=metadata.id,
        description=shown_text(metadata.description, max_length=1_000),
        columns=tuple(columns[:MAX_COLUMNS]),
        column_count=len(columns),
        properties=properties,
        features=tuple(map(shown_text, sorted(supported_features(protocol)))),
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        health=health,
        steps=tuple(map(StepOutcome.of, decide(health, thresholds))),
        layout=layout_of(snapshot, files),
        last_commit=entry_of_version(store, snapshot),
        position=position_at(store, snapshot.version),
    )


def _bounded(row: ColumnRow) -> ColumnRow:
    return replace(
        row,
        name=shown_text(row.name),
        type_text=shown_text(row.type_text),
        comment=shown_text(row.comment),
        rules=tuple(map(shown_text, row.rules)),
    )
