"""Tables with a history: hand-written commits at times that the test chooses, as several engines write them.

`TableHistory` records the expected rows of each version, so that a test needs no reader to know them. The test moves a
clock, and files and commits get the clock's time. Rows are numbers in a column `id`, beside a partition column `day`.
The names of files and the partition values have characters that a path must encode.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite import DeltaTable
from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.commands.restore import restore
from deltalite.protocol.file_names import LOG_DIR, commit_name
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import RestoreRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.cleanup import clean_log
from tests.support.tables import schema_json

BEGIN_MS = 1_700_000_000_000
DAYS = ("a b", "_c%d")


@dataclass(frozen=True)
class LiveFile:
    """A file of a version: its `add`, the ids in it, and the positions that its deletion vector removes."""

    add: dict[str, Any]
    ids: tuple[int, ...]
    deleted: frozenset[int] = frozenset()

    @property
    def rows(self) -> list[int]:
        """The ids of the rows that are not deleted."""
        return [row for position, row in enumerate(self.ids) if position not in self.deleted]


@dataclass
class TableHistory:
    """A table in `folder`.

    `states` has the files of each version, by path. `times` has the commit time of each version, in milliseconds since
    the epoch.
    """

    folder: Path
    properties: dict[str, str] = field(default_factory=dict)
    now_ms: int = BEGIN_MS
    states: list[dict[str, LiveFile]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    _next_id: int = 0

    def __post_init__(self) -> None:
        features = ["deletionVectors"]
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": [*features, "changeDataFeed"],
        }
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_json(("id", "long"), ("day", "string")),
            "partitionColumns": ["day"],
            "configuration": {"delta.checkpointInterval": "1000", **self.properties},
        }
        (self.folder / LOG_DIR).mkdir(parents=True)
        self._commit([{"protocol": protocol}, {"metaData": metadata}], {})

    @property
    def store(self) -> LocalLogStore:
        return LocalLogStore(str(self.folder))

    @property
    def live(self) -> dict[str, LiveFile]:
        """The files of the newest version, by path."""
        return self.states[-1]

    def advance_clock(self, hours: float) -> None:
        """Move the clock of the history forward."""
        self.now_ms += int(hours * HOUR_MS)

    def append(self, files: int = 1, *, lag_hours: float = 0) -> None:
        """Commit new files that a job wrote `lag_hours` ago."""
        new_files = [self._write_data_file(DAYS[number % 2], lag_hours) for number in range(files)]
        self._commit([{"add": file.add} for file in new_files], self.live | _by_path(new_files))

    def replace(self, day: str | None, *, lag_hours: float = 0, dated: bool = True) -> None:
        """Replace the rows of one partition, or of all, by one new file.

        With `dated=False` the removes have no `deletionTimestamp`, which some writers leave out.
        """
        removed_files = {
            path: f for path, f in self.live.items() if day is None or f.add["partitionValues"]["day"] == day
        }
        new_file = self._write_data_file(day or DAYS[0], lag_hours)
        actions = [*self._remove_actions(removed_files.values(), dated=dated), {"add": new_file.add}]
        self._commit(actions, {p: f for p, f in self.live.items() if p not in removed_files} | _by_path([new_file]))

    def delete_rows(self, *, files: int = 2) -> None:
        """Delete the first remaining row of some files, with deletion vectors that share a file."""
        touched_files = [f for _, f in sorted(self.live.items()) if f.rows][:files]
        deleted_positions = [f.deleted | {f.ids.index(f.rows[0])} for f in touched_files]
        if not touched_files:
            return
        vectors = write_vectors(
            self.store, [pa.array(sorted(positions), pa.int64()) for positions in deleted_positions]
        )
        self._set_file_time(self.folder / str(file_name(vectors[0])), 0)
        new_files = [
            LiveFile({**f.add, "deletionVector": vector}, f.ids, positions)
            for f, vector, positions in zip(touched_files, vectors, deleted_positions, strict=True)
        ]
        actions = [*self._remove_actions(touched_files), *({"add": file.add} for file in new_files)]
        self._commit(actions, self.live | _by_path(new_files))

    def change(self, *, lag_hours: float = 0) -> None:
        """Replace a file by a new one, and add a change data file. A job wrote both new files `lag_hours` ago."""
        if not self.live:
            return
        path, old_file = min(self.live.items())
        day = old_file.add["partitionValues"]["day"]
        new_file = self._write_data_file(day, lag_hours)
        types = ["delete"] * len(old_file.rows) + ["insert"] * len(new_file.rows)
        changed_ids = pa.array([*old_file.rows, *new_file.rows], pa.int64())
        changes = pa.table({"id": changed_ids, "_change_type": types})
        body = self._write(f"_change_data/{_directory(day)}/cdc-{uuid.uuid4()}.parquet", changes, lag_hours)
        cdc = {"cdc": {**body, "partitionValues": {"day": day}, "dataChange": False}}
        files = {p: f for p, f in self.live.items() if p != path} | _by_path([new_file])
        self._commit([*self._remove_actions([old_file]), {"add": new_file.add}, cdc], files)

    def restore(self, version: int) -> None:
        """Restore an older version without the library. Do nothing if a file of this version is missing."""
        target = self.states[version]
        if all(self._exists(f) for f in target.values()):
            removed_files = [f for p, f in self.live.items() if target.get(p) != f]
            added_files = [f for p, f in target.items() if self.live.get(p) != f]
            self._commit([*self._remove_actions(removed_files), *({"add": f.add} for f in added_files)], dict(target))

    def write_orphan(self, *, age_hours: float = 0) -> None:
        """Write a data file that no version names."""
        self._write_data_file(DAYS[0], age_hours)

    def write_staging_file(self, *, age_hours: float = 0) -> None:
        """Write a staging file, as a killed write of this library leaves it."""
        self._write(f"_deltalite_staging/{uuid.uuid4()}/0/part.parquet", pa.table({"id": [1]}), age_hours)

    def checkpoint(self) -> None:
        write_checkpoint(Snapshot.load(self.store), now_ms=self.now_ms)

    def clean(self) -> None:
        clean_log(Snapshot.load(self.store), now_ms=self.now_ms)

    def record_library_commits(self) -> None:
        """Record the commits that the library wrote, which change no data files, and set their time to the clock's."""
        while (file := self.folder / commit_name(len(self.states))).exists():
            self._set_file_time(file, 0)
            self.states.append(self.live)
            self.times.append(self.now_ms)

    def rows_of(self, version: int) -> list[int]:
        """The expected ids of a version, sorted."""
        return sorted(row for f in self.states[version].values() for row in f.rows)

    def current_at(self, moment_ms: int) -> int:
        """The version that was current at a moment; 0 before the first commit."""
        return max((v for v, time in enumerate(self.times) if time <= moment_ms), default=0)

    def read(self) -> dict[int, tuple[list[int], list[tuple[Any, ...]] | None]]:
        """Read each version with the library; returns its ids and its changes, by version.

        A version whose rows are not readable any more is left out. Changes that are not readable any more are None.
        """
        readable = {}
        for version in range(len(self.states)):
            try:
                rows = sorted(DeltaTable(str(self.folder), version=version).to_arrow()["id"].to_pylist())
            except Exception:  # noqa: BLE001  this version is not readable any more
                continue
            readable[version] = (rows, self._changes(version))
        return readable

    def _changes(self, version: int) -> list[tuple[Any, ...]] | None:
        try:
            batches = DeltaTable(str(self.folder)).changes(from_version=version, to_version=version)
            changes = [row for batch in batches for row in batch.to_pylist()]
        except Exception:  # noqa: BLE001  the changes of this version are not readable any more
            return None
        return sorted((row["id"], row["day"], row["_change_type"]) for row in changes)

    def files(self) -> set[str]:
        """The names of all files outside the log."""
        names = (f.relative_to(self.folder).as_posix() for f in self.folder.rglob("*") if f.is_file())
        return {name for name in names if not name.startswith(LOG_DIR)}

    def _write_data_file(self, day: str, age_hours: float) -> LiveFile:
        ids = tuple(range(self._next_id, self._next_id + 3))
        self._next_id += 3
        body = self._write(f"{_directory(day)}/part-{uuid.uuid4()} %41.parquet", pa.table({"id": list(ids)}), age_hours)
        add = {
            **body,
            "partitionValues": {"day": day},
            "modificationTime": self.now_ms,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(ids)}),
        }
        return LiveFile(add, ids)

    def _write(self, name: str, table: pa.Table, age_hours: float) -> dict[str, Any]:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)
        self._set_file_time(file, age_hours)
        return {"path": quote(name), "size": file.stat().st_size}

    def _set_file_time(self, file: Path, age_hours: float) -> None:
        seconds = self.now_ms / 1000 - age_hours * 3600
        os.utime(file, (seconds, seconds))

    def _remove_actions(self, files: Iterable[LiveFile], *, dated: bool = True) -> list[dict[str, Any]]:
        keys = ("path", "partitionValues", "size", "deletionVector")
        timestamp = {"deletionTimestamp": self.now_ms} if dated else {}
        shared_fields = {**timestamp, "dataChange": True, "extendedFileMetadata": True}
        return [{"remove": {k: f.add[k] for k in keys if k in f.add} | shared_fields} for f in files]

    def _exists(self, file: LiveFile) -> bool:
        vector = file.add.get("deletionVector")
        names = [unquote(file.add["path"]), *([str(file_name(vector))] if vector else [])]
        return all((self.folder / name).exists() for name in names)

    def _commit(self, actions: list[dict[str, Any]], files: dict[str, LiveFile]) -> None:
        info = {"commitInfo": {"timestamp": self.now_ms, "operation": "TEST"}}
        file = self.folder / commit_name(len(self.states))
        file.write_text("".join(json.dumps(action) + "\n" for action in [info, *actions]))
        self._set_file_time(file, 0)
        self.states.append(files)
        self.times.append(self.now_ms)
        self.now_ms += 1


def _by_path(files: Iterable[LiveFile]) -> dict[str, LiveFile]:
    return {f.add["path"]: f for f in files}


def _directory(day: str) -> str:
    return "day=" + quote(day, safe=" ")


def restore_history(history: TableHistory, version: int | None = None, **options: Any) -> OperationResult:
    """Restore the table through the library. The history does not record this commit."""
    return restore(None, RestoreRequest(table=str(history.folder), version=version, **options))


def ids(history: TableHistory, version: int | None = None) -> list[int]:
    """The ids that the library reads from a version, by default the newest, sorted."""
    return sorted(DeltaTable(str(history.folder), version=version).to_arrow()["id"].to_pylist())
