"""Tables with a history: hand-written commits at times that the test chooses, as several engines write them.

`TableHistory` records the expected rows of each version, so that a test needs no reader to know them. The test sets the
clock; files and commits carry its time. Rows are numbers in a column `id`, beside a partition column `day`. File names
and partition values need encoding.
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
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.deletion_vectors.reading import file_name
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
    """A file of a version: its `add`, its rows, and the positions that its deletion vector removes."""

    add: dict[str, Any]
    ids: tuple[int, ...]
    deleted: frozenset[int] = frozenset()

    @property
    def rows(self) -> list[int]:
        return [row for at, row in enumerate(self.ids) if at not in self.deleted]


@dataclass
class TableHistory:
    """A table in `folder`. `states` has the files of each version, `times` the commit time of each version."""

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
        return self.states[-1]

    def wait(self, hours: float) -> None:
        self.now_ms += int(hours * HOUR_MS)

    def append(self, files: int = 1, *, lag_hours: float = 0) -> None:
        """Commit new files that a job wrote `lag_hours` ago."""
        new = [self._file(DAYS[number % 2], lag_hours) for number in range(files)]
        self._commit([{"add": file.add} for file in new], self.live | _by_path(new))

    def replace(self, day: str | None, *, lag_hours: float = 0, dated: bool = True) -> None:
        """Replace the rows of one partition, or of all. Some writers leave `deletionTimestamp` out: `dated=False`."""
        removed = {path: f for path, f in self.live.items() if day is None or f.add["partitionValues"]["day"] == day}
        new = [self._file(day or DAYS[0], lag_hours)]
        actions = [*self._removes(removed.values(), dated=dated), *({"add": file.add} for file in new)]
        self._commit(actions, {p: f for p, f in self.live.items() if p not in removed} | _by_path(new))

    def delete_rows(self, *, files: int = 2) -> None:
        """Remove the first remaining row of some files, with deletion vectors that share a file."""
        chosen = [f for _, f in sorted(self.live.items()) if f.rows][:files]
        deleted = [f.deleted | {f.ids.index(f.rows[0])} for f in chosen]
        if not chosen:
            return
        vectors = write_vectors(self.store, [pa.array(sorted(positions), pa.int64()) for positions in deleted])
        self._age(self.folder / str(file_name(vectors[0])), 0)
        new = [
            LiveFile({**f.add, "deletionVector": vector}, f.ids, positions)
            for f, vector, positions in zip(chosen, vectors, deleted, strict=True)
        ]
        actions = [*self._removes(chosen), *({"add": file.add} for file in new)]
        self._commit(actions, self.live | _by_path(new))

    def change(self, *, lag_hours: float = 0) -> None:
        """Replace one file by another, with a change data file; a job wrote both `lag_hours` ago."""
        if not self.live:
            return
        path, old = min(self.live.items())
        day = old.add["partitionValues"]["day"]
        new = self._file(day, lag_hours)
        types = ["delete"] * len(old.rows) + ["insert"] * len(new.rows)
        changed = pa.table({"id": pa.array([*old.rows, *new.rows], pa.int64()), "_change_type": types})
        body = self._write(f"_change_data/{_directory(day)}/cdc-{uuid.uuid4()}.parquet", changed, lag_hours)
        cdc = {"cdc": {**body, "partitionValues": {"day": day}, "dataChange": False}}
        files = {p: f for p, f in self.live.items() if p != path} | _by_path([new])
        self._commit([*self._removes([old]), {"add": new.add}, cdc], files)

    def restore(self, version: int) -> None:
        """Commit the files of an older version again, if all of them exist."""
        target = self.states[version]
        if all(self._exists(f) for f in target.values()):
            removed = [f for p, f in self.live.items() if target.get(p) != f]
            added = [f for p, f in target.items() if self.live.get(p) != f]
            self._commit([*self._removes(removed), *({"add": f.add} for f in added)], dict(target))

    def orphan(self, *, age_hours: float = 0) -> None:
        """Write a data file that no version names."""
        self._file(DAYS[0], age_hours)

    def staging(self, *, age_hours: float = 0) -> None:
        """Write a staging file, as a killed write of this library leaves it."""
        self._write(f"_deltalite_staging/{uuid.uuid4()}/0/part.parquet", pa.table({"id": [1]}), age_hours)

    def checkpoint(self) -> None:
        write_checkpoint(Snapshot.load(self.store), now_ms=self.now_ms)

    def clean(self) -> None:
        clean_log(Snapshot.load(self.store), now_ms=self.now_ms)

    def record_library_commits(self) -> None:
        """Record the commits that the library wrote. They change no files, and get the time of the clock."""
        while (file := self.folder / commit_name(len(self.states))).exists():
            self._age(file, 0)
            self.states.append(self.live)
            self.times.append(self.now_ms)

    def rows_of(self, version: int) -> list[int]:
        return sorted(row for f in self.states[version].values() for row in f.rows)

    def current_at(self, moment_ms: int) -> int:
        """The version that was current at a moment; 0 before the first commit."""
        return max((v for v, time in enumerate(self.times) if time <= moment_ms), default=0)

    def read(self) -> dict[int, tuple[list[int], list[tuple[Any, ...]] | None]]:
        """The rows and the changes of each readable version; None for changes that are not readable."""
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
            changed = [row for batch in batches for row in batch.to_pylist()]
        except Exception:  # noqa: BLE001  as above
            return None
        return sorted((row["id"], row["day"], row["_change_type"]) for row in changed)

    def files(self) -> set[str]:
        """The names of all plain files outside the log."""
        names = (f.relative_to(self.folder).as_posix() for f in self.folder.rglob("*") if f.is_file())
        return {name for name in names if not name.startswith(LOG_DIR)}

    def _file(self, day: str, lag_hours: float) -> LiveFile:
        ids = tuple(range(self._next_id, self._next_id + 3))
        self._next_id += 3
        body = self._write(f"{_directory(day)}/part-{uuid.uuid4()} %41.parquet", pa.table({"id": list(ids)}), lag_hours)
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
        self._age(file, age_hours)
        return {"path": quote(name), "size": file.stat().st_size}

    def _age(self, file: Path, hours: float) -> None:
        seconds = self.now_ms / 1000 - hours * 3600
        os.utime(file, (seconds, seconds))

    def _removes(self, files: Iterable[LiveFile], *, dated: bool = True) -> list[dict[str, Any]]:
        keys = ("path", "partitionValues", "size", "deletionVector")
        time = {"deletionTimestamp": self.now_ms} if dated else {}
        shared = {**time, "dataChange": True, "extendedFileMetadata": True}
        return [{"remove": {k: f.add[k] for k in keys if k in f.add} | shared} for f in files]

    def _exists(self, file: LiveFile) -> bool:
        vector = file.add.get("deletionVector")
        names = [unquote(file.add["path"]), *([str(file_name(vector))] if vector else [])]
        return all((self.folder / name).exists() for name in names)

    def _commit(self, actions: list[dict[str, Any]], files: dict[str, LiveFile]) -> None:
        info = {"commitInfo": {"timestamp": self.now_ms, "operation": "TEST"}}
        file = self.folder / commit_name(len(self.states))
        file.write_text("".join(json.dumps(action) + "\n" for action in [info, *actions]))
        self._age(file, 0)
        self.states.append(files)
        self.times.append(self.now_ms)
        self.now_ms += 1


def _by_path(files: Iterable[LiveFile]) -> dict[str, LiveFile]:
    return {f.add["path"]: f for f in files}


def _directory(day: str) -> str:
    return "day=" + quote(day, safe=" ")


def restore_history(history: TableHistory, version: int | None = None, **options: Any) -> OperationResult:
    """Restore the table of a history through the library, which the history does not record."""
    return restore(None, RestoreRequest(table=str(history.folder), version=version, **options))


def ids(history: TableHistory, version: int | None = None) -> list[int]:
    """The ids of a table's rows, in order."""
    return sorted(DeltaTable(str(history.folder), version=version).to_arrow()["id"].to_pylist())
