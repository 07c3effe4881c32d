"""The files that come back in a restore and those that go, and whether those that come back are there.

Files are one if their path and their deletion vector are (`log.file_table.key_column`), so a file whose vector has
changed goes and comes back. Everything stays columns; only names of files that are missing become text. What comes
back is looked for by listing the folders, data files and the files of their vectors alike: a vacuum may have taken
either. A folder that cannot be looked into says nothing, and does not stand in the way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors import FRAME_BYTES, file_name
from deltalite.errors import CorruptDataFileError
from deltalite.inspection.presence import Absent, Presence
from deltalite.log.action_files import read_actions
from deltalite.log.file_table import ADD_TYPES, file_key, key_column, without_rows
from deltalite.log.listing import list_log
from deltalite.protocol.actions import RemoveFile
from deltalite.protocol.paths import decode_path
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

_REMOVED_COLUMNS = ("path", "partitionValues", "size", "deletionVector")
_AT_A_TIME = 65_536
_SHOWN = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What makes `base` the older version: `back` has all columns of `ADD_TYPES`, `gone` those of a remove.

    `files_after` and `bytes_after` are what the table holds then.
    """

    back: pa.Table
    gone: pa.Table
    files_after: int
    bytes_after: int

    def without(self, absent: AbsentFiles) -> Difference:
        """The same without the files that are not there."""
        kept = without_rows(self.back, absent.mask)
        lost_bytes = bytes_of(self.back) - bytes_of(kept)
        return Difference(
            back=kept,
            gone=self.gone,
            files_after=self.files_after - absent.count,
            bytes_after=self.bytes_after - lost_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentFiles:
    """Files that should come back and cannot: which of the table they are, and why, for the first of them."""

    mask: pa.ChunkedArray
    keys: frozenset[str]
    shown: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.keys)


def difference(base: Snapshot, target: Snapshot) -> Difference:
    """The files of `target` that `base` does not have, and the other way round."""
    then, now = target.files_with(tuple(ADD_TYPES)), base.files_with(_REMOVED_COLUMNS)
    old_keys, new_keys = key_column(then), key_column(now)
    return Difference(
        back=without_rows(then, pc.is_in(old_keys, value_set=new_keys)),
        gone=without_rows(now, pc.is_in(new_keys, value_set=old_keys)),
        files_after=then.num_rows,
        bytes_after=bytes_of(then),
    )


def bytes_of(files: pa.Table) -> int:
    """The size of all files of a table."""
    total: int | None = pc.sum(files["size"]).as_py()
    return total or 0


def absent_files(store: LogStore, files: pa.Table) -> AbsentFiles:
    """Those of the files that are not there, have another size than the log says, or lack their deletion vector.

    Raises:
        StorageError: storage does not answer.
    """
    presence, masks, keys, shown = Presence(store), list[pa.Array](), set[str](), list[str]()
    for batch in files.select(["path", "size", "deletionVector"]).to_batches(max_chunksize=_AT_A_TIME):
        rows = batch.to_pylist()
        reasons = _reasons(presence, rows)
        masks.append(pa.array([reason is not None for reason in reasons], pa.bool_()))
        for row, reason in zip(rows, reasons, strict=True):
            if reason is not None:
                keys.add(file_key(row["path"], row["deletionVector"]))
                if len(shown) < _SHOWN:
                    shown.append(reason)
    if presence.unseen:
        _log.warning(
            "Whether the files in %s folders are there is not known, since they cannot be looked into, such as %s.",
            len(presence.unseen),
            presence.unseen[0],
        )
    return AbsentFiles(mask=pa.chunked_array(masks, pa.bool_()), keys=frozenset(keys), shown=tuple(shown))


def refuse_absent(absent: AbsentFiles, base: Snapshot, target: Snapshot) -> None:
    """Return where nothing is absent.

    Raises:
        CorruptDataFileError: files are; it lists the first, and names a later version that needs none of them.
    """
    if not absent.count:
        return
    more = f"; and {absent.count - len(absent.shown)} more" if absent.count > len(absent.shown) else ""
    whole = _oldest_without(absent.keys, base, target)
    later = f" Version {whole} is the oldest behind it that needs none of them." if whole is not None else ""
    raise CorruptDataFileError(
        f"Version {target.version} of {base.store.root} cannot be restored, since {absent.count} of its files are not "
        f"there as the log says, after a vacuum perhaps: {'; '.join(absent.shown)}{more}.{later} Nothing was changed.",
        remedy="Restore a later version (`deltalite verify` says which are whole), bring the files back from a backup, "
        "or set ignore_missing_files=True to restore the version without their rows.",
    )


def _reasons(presence: Presence, rows: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Why each file cannot come back; None where it can."""
    names = [decode_path(row["path"]) for row in rows]
    vectors = [_vector_file(row["deletionVector"]) for row in rows]
    sizes = presence.sizes(names)
    wanted = sorted({name for name in vectors if name is not None})
    vector_sizes = dict(zip(wanted, presence.sizes(wanted), strict=True))
    found: list[str | None] = []
    for row, name, vector, size in zip(rows, names, vectors, sizes, strict=True):
        reason = _wrong(name, size, exact=row["size"])
        if reason is None and vector is not None:
            reason = _wrong(vector, vector_sizes[vector], least=_end_of(row["deletionVector"]))
        found.append(reason)
    return found


def _wrong(name: str, size: int | Absent, *, exact: int | None = None, least: int = 0) -> str | None:
    match size:
        case Absent.MISSING:
            return f"{name} is missing"
        case Absent.UNTOLD:
            return None
        case int() if (exact and size != exact) or size < least:
            return f"{name} has {size} bytes instead of {exact or least}"
        case _:
            return None


def _vector_file(descriptor: Mapping[str, Any] | None) -> str | None:
    return None if descriptor is None else file_name(descriptor)


def _end_of(descriptor: Mapping[str, Any]) -> int:
    """The bytes that a file must have to hold the vector."""
    return int(descriptor["offset"] or 0) + int(descriptor["sizeInBytes"] or 0) + 2 * FRAME_BYTES


def _oldest_without(keys: frozenset[str], base: Snapshot, target: Snapshot) -> int | None:
    """The version behind `target` in which the last of the files is gone; None where the log no longer says it."""
    store, left = base.store, set(keys)
    commits = list_log(store, target.version + 1).commits
    for version in range(target.version + 1, base.version + 1):
        commit = commits.get(version)
        if commit is None:
            return None
        for kind, body in read_actions(store, commit.name, commit.size_bytes):
            if kind == RemoveFile.action:
                left.discard(file_key(body["path"], body.get("deletionVector")))
        if not left:
            return version
    return None
