"""Row-level concurrency: two commits soft-delete different rows of the same file, and both succeed.

Both commits remove the file with its old deletion vector, so delta-spark reports a conflict. Here the current
transaction gets a merged vector if four conditions hold:

1. The operation decided on each row independently of other rows (`Proposal.row_level`).
2. Each commit removes the file with the old vector and adds it again with a new vector.
3. The winning commit soft-deleted rows of the file, and restored none.
4. No row is soft-deleted by both commits.

If only the winning commit soft-deletes rows of a file, the file does not conflict under the conditions 1 and 3. The
usual rules apply to all other actions of the winning commit. Protocol: Deletion Vectors, Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.deletion_vectors.reading import vector_positions
from deltalite.errors import DeltaLiteError
from deltalite.log.file_table import file_key
from deltalite.protocol.actions import Action, AddFile, RemoveFile
from deltalite.protocol.paths import canonical_path
from deltalite.storage.log_store import LogStore
from deltalite.txn.proposal import Proposal
from deltalite.txn.winners import Winner


@dataclass(frozen=True, slots=True, kw_only=True)
class _SoftDeletion:
    """A file that a commit removes with one deletion vector and adds again with another vector."""

    remove: RemoveFile
    add: AddFile


class RowMerger:
    """Merges deletion vectors for one commit, and deletes the vector files that the commit does not use."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        # The names of files with merged vectors, and of files with vectors that merged vectors replace. The keys are
        # `pathOrInlineDv`.
        self._merged_vector_files: dict[str, str] = {}
        self._replaced_vector_files: dict[str, str] = {}

    def merge(self, proposal: Proposal, winner: Winner) -> tuple[Proposal, Winner] | None:
        """Merge the vectors of both commits, and write the merged vectors.

        Returns the proposal with the merged vectors, and the winner without its soft deletions. Returns None if a
        condition of this module does not hold.

        Raises:
            CorruptDataFileError: a vector is missing or invalid.
            StorageError: storage does not answer, or the merged vectors cannot be written.
        """
        # Condition 1
        if not proposal.row_level:
            return None
        deletions = _soft_deletions(proposal.adds, proposal.removes)
        winner_deletions = _soft_deletions(winner.adds, winner.removes)
        # Condition 2
        removed_keys = {file_key(remove.path, remove.deletion_vector) for remove in proposal.removes}
        if not (removed_keys - deletions.keys()).isdisjoint(winner_deletions):
            return None
        merged_rows: dict[str, pa.Int64Array] = {}
        for key, winner_deletion in winner_deletions.items():
            # Condition 3
            winner_rows = self._newly_deleted_rows(winner_deletion)
            if winner_rows is None:
                return None
            # Condition 4
            if key in deletions:
                rows = self._rows(deletions[key].add.deletion_vector)
                if pc.any(pc.is_in(winner_rows, value_set=rows)).as_py():
                    return None
                merged_rows[key] = pa.concat_arrays([rows, winner_rows]).sort()
        vectors = self._write_vectors(merged_rows)
        self._replaced_vector_files |= _vector_file_names(deletions[key].add.deletion_vector for key in vectors)
        merged_proposal = _with_merged_vectors(proposal, deletions, winner_deletions, vectors)
        return merged_proposal, _without_soft_deletions(winner, winner_deletions.values())

    def delete_unused_vectors(self, *, committed: Proposal | None = None) -> None:
        """Delete the merged vector files, except those that the `committed` proposal uses.

        With a committed proposal, also delete the files of the vectors that merged vectors replaced. If a file cannot
        be deleted, a vacuum deletes it later.
        """
        vectors = [] if committed is None else [add.deletion_vector for add in committed.adds]
        used_paths = {vector.get("pathOrInlineDv") for vector in vectors if vector is not None}
        replaced_files = {} if committed is None else self._replaced_vector_files
        for path, name in (self._merged_vector_files | replaced_files).items():
            if path not in used_paths:
                with suppress(DeltaLiteError):
                    self._store.delete(name)

    def _newly_deleted_rows(self, deletion: _SoftDeletion) -> pa.Int64Array | None:
        """Return the rows that the winner soft-deleted in a file, None if the winner restored rows."""
        old_rows, new_rows = self._rows(deletion.remove.deletion_vector), self._rows(deletion.add.deletion_vector)
        if len(old_rows) and not pc.all(pc.is_in(old_rows, value_set=new_rows)).as_py():
            return None
        return new_rows.filter(pc.invert(pc.is_in(new_rows, value_set=old_rows)))

    def _write_vectors(self, rows: Mapping[str, pa.Int64Array]) -> dict[str, dict[str, Any]]:
        """Write a deletion vector for the rows of each file key, and return the descriptors by file key."""
        if not rows:
            return {}
        descriptors = write_vectors(self._store, list(rows.values()))
        self._merged_vector_files |= _vector_file_names(descriptors)
        return dict(zip(rows, descriptors, strict=True))

    def _rows(self, descriptor: Mapping[str, Any] | None) -> pa.Int64Array:
        """Return the positions of the rows that a vector soft-deletes; none without a vector."""
        return pa.array([], pa.int64()) if descriptor is None else vector_positions(self._store, descriptor)


def _vector_file_names(vectors: Iterable[Mapping[str, Any] | None]) -> dict[str, str]:
    """Return the names of the files that hold vectors, by `pathOrInlineDv`."""
    names = ((vector["pathOrInlineDv"], file_name(vector)) for vector in vectors if vector is not None)
    return {path: name for path, name in names if name is not None}


def _soft_deletions(adds: Iterable[AddFile], removes: Iterable[RemoveFile]) -> dict[str, _SoftDeletion]:
    """Return the soft deletions of a commit, by the key of the removed file."""
    adds_by_path = {canonical_path(add.path): add for add in adds if add.deletion_vector is not None}
    removes_and_adds = ((remove, adds_by_path.get(canonical_path(remove.path))) for remove in removes)
    return {
        file_key(remove.path, remove.deletion_vector): _SoftDeletion(remove=remove, add=add)
        for remove, add in removes_and_adds
        if add is not None
    }


def _with_merged_vectors(
    proposal: Proposal,
    deletions: Mapping[str, _SoftDeletion],
    winner_deletions: Mapping[str, _SoftDeletion],
    vectors: Mapping[str, dict[str, Any]],
) -> Proposal:
    """Return the proposal with the winner's vectors in its removes, and the merged `vectors` in its adds."""
    new_removes: dict[int, RemoveFile] = {}
    new_adds: dict[int, AddFile] = {}
    for key, vector in vectors.items():
        remove, add = deletions[key].remove, deletions[key].add
        new_removes[id(remove)] = replace(remove, deletion_vector=winner_deletions[key].add.deletion_vector)
        new_adds[id(add)] = replace(add, deletion_vector=vector)
    return replace(
        proposal,
        removes=tuple(new_removes.get(id(remove), remove) for remove in proposal.removes),
        adds=tuple(new_adds.get(id(add), add) for add in proposal.adds),
    )


def _without_soft_deletions(winner: Winner, deletions: Iterable[_SoftDeletion]) -> Winner:
    """Return the winner without the actions of these soft deletions."""
    keys = frozenset(_action_key(action) for deletion in deletions for action in (deletion.add, deletion.remove))
    return replace(winner, actions=_OtherActions(actions=winner.actions, excluded_keys=keys)) if keys else winner


@dataclass(frozen=True, slots=True, kw_only=True)
class _OtherActions:
    """The actions whose keys are not in `excluded_keys`. Each iteration filters `actions` again."""

    actions: Iterable[Action]
    excluded_keys: frozenset[tuple[str, str]]

    def __iter__(self) -> Iterator[Action]:
        for action in self.actions:
            if not isinstance(action, AddFile | RemoveFile) or _action_key(action) not in self.excluded_keys:
                yield action


def _action_key(action: AddFile | RemoveFile) -> tuple[str, str]:
    """Return the key that identifies a file action within its commit."""
    return action.action, file_key(action.path, action.deletion_vector)
