"""Row-level concurrency: the winner and our transaction soft-deleted different rows of the same file.

delta-spark reports a conflict, because both commits remove the file with its old deletion vector. Here the vectors are
merged and both commits succeed, under four conditions:

1. Our operation decided on each row independently, so rows removed by others do not matter (`Proposal.row_level`).
2. Both commits remove the file with the same vector and add it again with another.
3. The winner only soft-deleted rows; it restored none.
4. The two sets of rows are disjoint.

If the winner only soft-deleted rows of a file that ours does not change, that file cannot conflict. The usual rules
apply to all other actions of the winner. Protocol: Deletion Vectors, Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vector_files import write_vectors
from deltalite.columnar.deletion_vectors import deleted_rows, file_name
from deltalite.errors import DeltaLiteError
from deltalite.log.file_table import file_key
from deltalite.protocol.actions import Action, AddFile, RemoveFile
from deltalite.protocol.paths import canonical_path
from deltalite.storage.log_store import LogStore
from deltalite.txn.proposal import Proposal
from deltalite.txn.winners import Winner


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marked:
    """A file that a commit removes with one deletion vector and adds again with another."""

    remove: RemoveFile
    add: AddFile


class RowMerger:
    """Merges deletion vectors for one commit, and deletes the vector files that the commit does not use."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._written: dict[str, str] = {}  # files of merged vectors, by their names in the log
        self._replaced: dict[str, str] = {}  # files of our vectors that a merged vector replaces

    def merged(self, ours: Proposal, winner: Winner) -> tuple[Proposal, Winner] | None:
        """Merge the vectors of both commits.

        Returns our proposal on top of the winner's soft-deleted rows, and the winner without the merged actions. None
        if the vectors cannot be merged.

        Raises:
            CorruptDataFileError: a vector cannot be read.
            StorageError: the merged vectors cannot be written.
        """
        if not ours.row_level:
            return None
        mine, theirs = _marked(ours.adds, ours.removes), _marked(winner.adds, winner.removes)
        taken_out = {file_key(remove.path, remove.deletion_vector) for remove in ours.removes} - mine.keys()
        if not taken_out.isdisjoint(theirs):
            return None
        rows: dict[str, pa.Int64Array] = {}
        for key, marked in theirs.items():
            new = self._newly_marked(marked)
            if new is None:
                return None
            if key in mine:
                own = self._rows(mine[key].add.deletion_vector)
                if pc.any(pc.is_in(new, value_set=own)).as_py():
                    return None
                rows[key] = pa.concat_arrays([own, new]).sort()
        vectors = self._written_vectors(rows)
        self._replaced |= _files_of(mine[key].add.deletion_vector for key in vectors)
        return _on_top(ours, mine, theirs, vectors), _without(winner, theirs.values())

    def discard(self, *, but_of: Proposal | None = None) -> None:
        """Delete the merged vector files, except those that the committed proposal `but_of` uses.

        With a committed proposal, this also deletes our vector files that merged ones replace. A file that cannot be
        deleted is left to a vacuum.
        """
        vectors = [] if but_of is None else [add.deletion_vector for add in but_of.adds]
        used = {vector.get("pathOrInlineDv") for vector in vectors if vector is not None}
        for text, name in (self._written if but_of is None else self._written | self._replaced).items():
            if text not in used:
                with suppress(DeltaLiteError):
                    self._store.delete(name)

    def _newly_marked(self, theirs: _Marked) -> pa.Int64Array | None:
        """Return the rows that the winner soft-deleted in a file, None if it restored rows."""
        before, after = self._rows(theirs.remove.deletion_vector), self._rows(theirs.add.deletion_vector)
        if len(before) and not pc.all(pc.is_in(before, value_set=after)).as_py():
            return None
        return after.filter(pc.invert(pc.is_in(after, value_set=before)))

    def _written_vectors(self, rows: Mapping[str, pa.Int64Array]) -> dict[str, dict[str, Any]]:
        if not rows:
            return {}
        descriptors = write_vectors(self._store, list(rows.values()))
        self._written |= _files_of(descriptors)
        return dict(zip(rows, descriptors, strict=True))

    def _rows(self, descriptor: Mapping[str, Any] | None) -> pa.Int64Array:
        return pa.array([], pa.int64()) if descriptor is None else deleted_rows(self._store, descriptor)


def _files_of(vectors: Iterable[Mapping[str, Any] | None]) -> dict[str, str]:
    """Return the file names of vectors, by their names in the log."""
    named = ((vector["pathOrInlineDv"], file_name(vector)) for vector in vectors if vector is not None)
    return {text: name for text, name in named if name is not None}


def _marked(adds: Iterable[AddFile], removes: Iterable[RemoveFile]) -> dict[str, _Marked]:
    """Return the files that a commit keeps with another vector, by their old keys."""
    back = {canonical_path(add.path): add for add in adds if add.deletion_vector is not None}
    found = ((remove, back.get(canonical_path(remove.path))) for remove in removes)
    return {
        file_key(remove.path, remove.deletion_vector): _Marked(remove=remove, add=add)
        for remove, add in found
        if add is not None
    }


def _on_top(
    ours: Proposal, mine: Mapping[str, _Marked], theirs: Mapping[str, _Marked], vectors: Mapping[str, dict[str, Any]]
) -> Proposal:
    """Return our proposal, changed to remove the files with the winner's vectors and add them with the merged ones."""
    removes = {
        id(mine[key].remove): replace(mine[key].remove, deletion_vector=theirs[key].add.deletion_vector)
        for key in vectors
    }
    adds = {id(mine[key].add): replace(mine[key].add, deletion_vector=vector) for key, vector in vectors.items()}
    return replace(
        ours,
        removes=tuple(removes.get(id(remove), remove) for remove in ours.removes),
        adds=tuple(adds.get(id(add), add) for add in ours.adds),
    )


def _without(winner: Winner, merged: Iterable[_Marked]) -> Winner:
    """Return the winner without the actions that soft-delete rows of these files."""
    settled = frozenset(_name_of(action) for marked in merged for action in (marked.add, marked.remove))
    return replace(winner, actions=_Unsettled(actions=winner.actions, settled=settled)) if settled else winner


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unsettled:
    """The actions without those whose `_name_of` is in `settled`; each iteration filters them again."""

    actions: Iterable[Action]
    settled: frozenset[tuple[str, str]]

    def __iter__(self) -> Iterator[Action]:
        for action in self.actions:
            if not isinstance(action, AddFile | RemoveFile) or _name_of(action) not in self.settled:
                yield action


def _name_of(action: AddFile | RemoveFile) -> tuple[str, str]:
    """Return the key that identifies a file action within its commit."""
    return action.action, file_key(action.path, action.deletion_vector)
