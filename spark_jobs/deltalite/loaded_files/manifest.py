"""Manifests: the list of segments that describes all loaded files of a table at one version.

A manifest is immutable and has a number, which is never used twice. The transaction `LOADED_FILES_APP_ID` of a table
version names the manifest by its number. A run that does not commit leaves a manifest that no version names. The folder
of the manifests lies inside `_delta_log`. Its file names do not begin with a number, so every engine ignores them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltalite.errors import UnsupportedFeatureError
from deltalite.loaded_files.segment import Segment, unreadable_record_error
from deltalite.protocol.actions import LOADED_FILES_APP_ID, NOTHING_LOADED, SetTransaction
from deltalite.protocol.file_names import LOADED_FILES_DIR

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

_FORMAT = 1
_NAME_PATTERN = re.compile(rf"{re.escape(LOADED_FILES_DIR)}/manifest-(\d{{20}})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The segments with all loaded files; `number` is `NOTHING_LOADED` if there is no manifest."""

    number: int = NOTHING_LOADED
    segments: tuple[Segment, ...] = ()

    @property
    def file_count(self) -> int:
        """The number of loaded files."""
        return sum(segment.file_count for segment in self.segments)


def manifest_name(number: int) -> str:
    """Return the name of a manifest, relative to the table's root."""
    return f"{LOADED_FILES_DIR}/manifest-{number:020}.json"


def manifest_number(name: str) -> int | None:
    """Return the number of a manifest from its name, None for the name of another file."""
    match = _NAME_PATTERN.fullmatch(name)
    return None if match is None else int(match[1])


def current_manifest_number(transactions: Mapping[str, SetTransaction]) -> int:
    """Return the number of the manifest of a table version, from its transactions; `NOTHING_LOADED` without one."""
    txn = transactions.get(LOADED_FILES_APP_ID)
    return NOTHING_LOADED if txn is None else txn.version


def read_manifest(store: LogStore, number: int) -> Manifest:
    """Return a manifest; the empty manifest for `NOTHING_LOADED`.

    Raises:
        CorruptLogError: the manifest is missing or malformed.
        UnsupportedFeatureError: a newer release wrote the manifest.
        StorageError: the storage does not answer.
    """
    if number == NOTHING_LOADED:
        return Manifest()
    data = store.read(manifest_name(number))
    if data is None:
        raise unreadable_record_error(store, manifest_name(number), "it is missing")
    try:
        body = json.loads(data)
        if body["format"] != _FORMAT:
            raise UnsupportedFeatureError(
                f"The record of loaded files of {store.root} has the format {body['format']}, and this release knows "
                f"only format {_FORMAT}.",
                remedy="Install the newest release on Spark and on the workers.",
            )
        return Manifest(number=number, segments=tuple(_segment(values) for values in body["segments"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise unreadable_record_error(store, manifest_name(number), f"it is malformed ({error})") from error


def put_manifest(store: LogStore, segments: tuple[Segment, ...], *, after: int) -> Manifest:
    """Write a manifest with the next free number above `after` and above all existing manifests.

    Raises:
        StorageError, CommitStateUnknownError: it is unknown whether the manifest exists. No version names it.
    """
    numbers = (manifest_number(file.name) for file in store.list_from(f"{LOADED_FILES_DIR}/"))
    number = max([after, *(existing for existing in numbers if existing is not None)]) + 1
    data = json.dumps({"format": _FORMAT, "segments": [_values(segment) for segment in segments]}).encode()
    while not store.write_if_absent(manifest_name(number), data):  # another run has taken the number
        number += 1
    return Manifest(number=number, segments=segments)


def _values(segment: Segment) -> dict[str, Any]:
    return {
        "name": segment.name.rpartition("/")[2],
        "files": segment.file_count,
        "sizeBytes": segment.size_bytes,
        "minModified": segment.min_modified_ms,
        "maxModified": segment.max_modified_ms,
    }


def _segment(values: Mapping[str, Any]) -> Segment:
    base = str(values["name"])
    if "/" in base:
        raise ValueError(base)
    return Segment(
        name=f"{LOADED_FILES_DIR}/{base}",
        file_count=int(values["files"]),
        size_bytes=int(values["sizeBytes"]),
        min_modified_ms=int(values["minModified"]),
        max_modified_ms=int(values["maxModified"]),
    )
