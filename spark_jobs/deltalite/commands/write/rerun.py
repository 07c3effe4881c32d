"""The replacement of an earlier run's rows: `on_rerun="replace"`.

A cleared task replaces exactly the files that its run added, in the commit that adds the new files. If a later
operation has rewritten one of these files, its rows may be mixed with other rows. The replacement then fails with an
error that names the version of that operation, if the log still holds it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import RerunRefusedError, VersionGapError
from deltalite.log.bounded_actions import read_bounded_actions
from deltalite.log.file_table import file_key, key_column
from deltalite.protocol.actions import RemoveFile, from_json
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.txn.find_run import find_run_commit


def files_of_earlier_run(base: Snapshot, identity: RunIdentity) -> pa.Table | None:
    """Return the files that this run's last commit added, or None if the run has not committed before.

    Raises:
        RerunRefusedError: a later commit rewrote or removed a file, or the log no longer has the run's commit.
    """
    if identity.app_id not in base.transactions:
        return None
    earlier_commit = find_run_commit(base.store, identity.app_id, at_or_below=base.version)
    if earlier_commit is None:
        raise RerunRefusedError(
            f"Cannot replace the rows that this run wrote to {base.store.root} before: the log no longer holds the "
            "commit of these rows, so their files are unknown.",
            remedy="Replace the run's rows by a predicate: mode='overwrite' with replace_where.",
        )
    keys = {file_key(path, None) for path in earlier_commit.added_paths}
    files = base.files.filter(pc.is_in(key_column(base.files), value_set=pa.array(sorted(keys), pa.string())))
    if files.num_rows != len(keys):
        missing_keys = keys - set(key_column(files).to_pylist())
        raise RerunRefusedError(
            f"Cannot replace the rows that this run wrote in version {earlier_commit.version} of {base.store.root}: "
            f"{_rewriting_commit(base, earlier_commit.version, missing_keys)} has rewritten or removed "
            f"{len(missing_keys)} of their {counted(len(keys), 'file')}.",
            remedy="Replace the run's rows by a predicate: mode='overwrite' with replace_where.",
        )
    return files


def _rewriting_commit(base: Snapshot, after: int, keys: set[str]) -> str:
    """Return a text for the first version above `after` that removes one of the files."""
    for version in range(after + 1, base.version + 1):
        try:
            if any(file_key(path, None) in keys for path in _removed_paths(base, commit_name(version))):
                return f"version {version}"
        except VersionGapError:
            continue
    return "a version that is no longer in the log"


def _removed_paths(base: Snapshot, name: str) -> Iterator[str]:
    """Yield the paths of the files that a commit removes, in bounded memory."""
    for kind, body in read_bounded_actions(base.store, name):
        if kind == RemoveFile.action:
            yield from_json(RemoveFile, body, name).path
