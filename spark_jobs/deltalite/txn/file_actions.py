"""File actions that are created during iteration, so a large commit does not hold all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

import pyarrow as pa

_Action = TypeVar("_Action")


class FileActions(Collection[_Action], Generic[_Action]):
    """One action for each row of `files`. Each iteration calls `create_actions` again."""

    def __init__(self, files: pa.Table, create_actions: Callable[[pa.Table], Iterator[_Action]]) -> None:
        self._files = files
        self._create_actions = create_actions

    def __len__(self) -> int:
        return int(self._files.num_rows)

    def __iter__(self) -> Iterator[_Action]:
        return self._create_actions(self._files)

    def __contains__(self, action: object) -> bool:
        return any(existing == action for existing in self)
