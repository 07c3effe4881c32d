"""A model of a folder, of the table that copies load, and of its quarantine, in memory.

The model knows files by name and version, and nothing of logs, records or Spark.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Any

from tests.support.copying import SOME_TIME_S

DEFAULT_MAX_BAD_SHARE, DEFAULT_MAX_BAD_COUNT = 0.5, 10


@dataclass(frozen=True, kw_only=True)
class File:
    """One version of a source file. `second` is the time of its write, which no other version has.

    With `has_new_column`, the header names a column that the table does not have. Its bad records have values in it.
    """

    name: str
    second: int
    ids: tuple[int, ...]
    bad_records: tuple[str, ...] = ()
    is_unreadable: bool = False
    has_new_column: bool = False

    def write(self, folder: Path) -> None:
        """Write the version as a compressed CSV file. An unreadable file lacks its end."""
        header, end = ("id,new", ",") if self.has_new_column else ("id", "")
        text = "\n".join([header, *(f"{number}{end}" for number in self.ids), *self.bad_records])
        content = gzip.compress(f"{text}\n".encode(), mtime=0)
        path = folder / self.name
        path.write_bytes(content[: -9 - self.second % 5] if self.is_unreadable else content)
        os.utime(path, (SOME_TIME_S + self.second, SOME_TIME_S + self.second))


@dataclass(frozen=True, kw_only=True)
class Load:
    """The parameters of a copy."""

    run: str
    generation: int = 0
    pattern: str | None = None
    file_names: tuple[str, ...] | None = None
    force: bool = False
    max_files: int | None = None
    has_quarantine: bool = True
    max_bad_share: float | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The parameters of the request, except the quarantine and the identity of the run."""
        names = ("pattern", "file_names", "force", "max_files", "max_bad_share")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The expected outcome of a copy: the loaded files, or why there are none."""

    files: tuple[File, ...] = ()
    is_retry: bool = False
    fails: bool = False


@dataclass(kw_only=True)
class CopyModel:
    """The folder, the table and the quarantine. `versions` has the rows and loaded files of some table versions."""

    files: dict[str, File] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    loaded: frozenset[File] = frozenset()
    quarantined: Counter[tuple[str, str | None, str]] = field(default_factory=Counter)
    generations: dict[str, int] = field(default_factory=dict)
    versions: dict[int, tuple[list[int], frozenset[File]]] = field(default_factory=dict)

    def copy(self, load: Load) -> Outcome:
        """Apply a copy."""
        if self.generations.get(load.run, -1) >= load.generation:
            return Outcome(is_retry=True)
        files = self._choice(load)
        if self._fails(load, files):
            return Outcome(fails=True)
        if files:
            for file in files:
                self.ids += () if file.is_unreadable else file.ids
                bad_records = (None,) if file.is_unreadable else file.bad_records
                self.quarantined.update((file.name, record, load.run) for record in bad_records)
            self.loaded |= set(files)
            self.generations[load.run] = load.generation
        return Outcome(files=tuple(files))

    def would_fail(self, load: Load) -> bool:
        """Whether a copy now fails because of bad files or records."""
        return self._fails(load, self._choice(load))

    def would_commit(self, load: Load) -> bool:
        """Whether a copy now commits."""
        return bool(self._choice(load)) and not self.would_fail(load)

    def _choice(self, load: Load) -> list[File]:
        files = [
            file
            for file in sorted(self.files.values(), key=lambda file: file.second)
            if (load.pattern is None or fnmatch(file.name, load.pattern))
            and (load.file_names is None or file.name in load.file_names)
            and (load.force or file not in self.loaded)
        ]
        return files[: load.max_files]

    @staticmethod
    def _fails(load: Load, files: list[File]) -> bool:
        share = load.max_bad_share
        unreadable_count = sum(file.is_unreadable for file in files)
        readable_files = [file for file in files if not file.is_unreadable]
        bad_count = sum(len(file.bad_records) for file in readable_files)
        record_count = bad_count + sum(len(file.ids) for file in readable_files)
        if not load.has_quarantine:
            return unreadable_count + bad_count > 0 or any(file.has_new_column for file in readable_files)
        return any(
            bad > (max(DEFAULT_MAX_BAD_COUNT, DEFAULT_MAX_BAD_SHARE * total) if share is None else share * total)
            for bad, total in ((unreadable_count, len(files)), (bad_count, record_count))
        )

    def restore(self, version: int) -> None:
        """Apply a restore."""
        ids, self.loaded = self.versions[version]
        self.ids = list(ids)

    def remember(self, version: int) -> None:
        """Remember the state of the newest version of the table."""
        self.versions[version] = (list(self.ids), self.loaded)


class RandomFolder:
    """Changes the files of a folder at random, and the files of the model in the same way."""

    def __init__(self, random: Random, folder: Path, model: CopyModel) -> None:
        self._random, self._folder, self._model = random, folder, model
        self._second = 0
        self._next_id = 1
        folder.mkdir()

    def change(self) -> None:
        """Add, replace, delete or touch a few files."""
        random, files = self._random, self._model.files
        for _ in range(random.randint(1, 4)):
            action = random.choice(["write", "write", "write", "delete", "touch"])
            name = f"{random.choice('ab')}{random.randint(1, 4)}.csv.gz"
            if action == "write" or name not in files:
                self._write(self._new_file(name))
            elif action == "touch":  # the time alone makes another version
                self._second += 1
                self._write(replace(files[name], second=self._second))
            else:
                del files[name]
                (self._folder / name).unlink()

    def _new_file(self, name: str) -> File:
        random = self._random
        self._second += 1
        first_id, count = self._next_id, random.randint(0, 4)
        self._next_id += count
        has_new_column = random.random() < 0.25
        bad_count = random.choice([0, 0, 0, 1, 2])
        bad_records = [f"0,{self._second}-{n}" if has_new_column else f"x{self._second}-{n}" for n in range(bad_count)]
        return File(
            name=name,
            second=self._second,
            ids=tuple(range(first_id, first_id + count)),
            bad_records=tuple(bad_records),
            is_unreadable=random.random() < 0.25,
            has_new_column=has_new_column,
        )

    def _write(self, file: File) -> None:
        file.write(self._folder)
        self._model.files[file.name] = file
