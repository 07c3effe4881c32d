"""The unreadable files of one copy command, which its attempts share.

Without a quarantine, such a file fails the task. With a quarantine, the load leaves out as many files as
`max_bad_share` allows, and the quarantine gets a row for each file. The record lists the file too, so that no later run
reads the file again until its size, time or ETag changes.

The command checks the files only after a failed read, and then replans without the unreadable files. A file that has
not changed stays unreadable for all later attempts of the command.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.commands.common.replanning import NewPlanNeeded
from deltalite.errors import SourceError
from deltalite.requests import CopyRequest
from deltalite.requests.quarantine import max_bad_count
from deltalite.sizes import counted
from deltalite.spark.reader.unreadable_files import FileChecker, may_be_unreadable

if TYPE_CHECKING:
    from deltalite.loaded_files.bad_file_search import BadFiles

_log = logging.getLogger(__name__)
_SHOWN_FILES = 3
_VERSION_COLUMNS = ("address", "size_bytes", "modified_ms", "etag")


class UnreadableFiles:
    """The unreadable files of one copy command."""

    def __init__(self, request: CopyRequest) -> None:
        self._request = request
        self._reasons: dict[tuple[object, ...], str] = {}

    def among(self, files: pa.Table) -> Mapping[str, str]:
        """Return the reason of each unreadable file in `files` (`FILES`), by address.

        Raises:
            SourceError: more files are unreadable than `max_bad_share` allows.
        """
        if not self._reasons:
            return {}
        reasons = {
            address: self._reasons[version]
            for address, version in zip(files["address"].to_pylist(), _versions(files), strict=True)
            if version in self._reasons
        }
        if len(reasons) > self._max_count(files):
            raise self._too_many(f"{len(reasons)} of {counted(files.num_rows, 'file')}", files, reasons)
        return reasons

    def replan_without_unreadable(self, error: Exception, files: pa.Table, checker: FileChecker) -> None:
        """Look for unreadable files after a failed read, and make the command replan if there are any.

        Do nothing if `error` has another cause. `files` are the files of the failed read, which `checker` reads again.

        Raises:
            NewPlanNeeded: some files are unreadable.
            SourceError: more files are unreadable than `max_bad_share` allows.
            StorageError: the storage does not deliver a file.
        """
        if not may_be_unreadable(error):
            return
        bad_files = checker.find_unreadable(max_count=self._max_count(files))
        self._check_search(bad_files, files, error)
        reasons = bad_files.reasons
        if not reasons:
            return
        for address, version in zip(files["address"].to_pylist(), _versions(files), strict=True):
            if address in reasons:
                self._reasons[version] = reasons[address]
        file_text = counted(len(reasons), "unreadable file")
        raise NewPlanNeeded(f"leaving out {file_text}. {text_of_reasons(reasons)}") from error

    def _max_count(self, files: pa.Table) -> int:
        return max_bad_count(self._request, files.num_rows)

    def _check_search(self, bad_files: BadFiles, files: pa.Table, error: Exception) -> None:
        """Raise an error if the search ended before the last file, because it found too many unreadable files."""
        if bad_files.checked_count is not None:
            reasons = bad_files.reasons
            share = (
                f"{len(reasons)} of {counted(bad_files.checked_count, 'checked file')} (of {files.num_rows} in the run)"
            )
            raise self._too_many(share, files, reasons) from error

    def _too_many(self, share: str, files: pa.Table, reasons: Mapping[str, str]) -> SourceError:
        """Return the error for too many unreadable files. `share` says how many they are, such as "3 of 9 files"."""
        return SourceError(
            f"Nothing was loaded into {self._request.table}: {share} cannot be loaded, and the limit is "
            f"{self._max_count(files)}. {text_of_reasons(reasons)}",
            remedy="Check the format and the options of the source. If the files have new columns, set "
            "merge_schema=True to add them. To quarantine so many files, set max_bad_share=1.",
        )


def readable_files(files: pa.Table, unreadable: Mapping[str, str]) -> pa.Table:
    """Return the files (`FILES`) without the unreadable files."""
    if not unreadable:
        return files
    return files.filter(pc.invert(pc.is_in(files["address"], pa.array(list(unreadable), pa.string()))))


def text_of_reasons(reasons: Mapping[str, str]) -> str:
    """Return a text about a few unreadable files, with their reasons."""
    texts = [f"{address}: {reasons[address]}" for address in sorted(reasons)[:_SHOWN_FILES]]
    return " ".join(texts)


def _versions(files: pa.Table) -> list[tuple[object, ...]]:
    columns = [files[name].to_pylist() for name in _VERSION_COLUMNS]
    return list(zip(*columns, strict=True))
