"""The request of an optimize task.

Sizes are bytes of stored files. Without `target_file_size`, the table's `delta.targetFileSize` applies, or else 256
MiB. The command checks that the columns of `z_order_by` and `where` exist and have suitable types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import CommitRequest, Fault, faults_of_rerun_replace

DEFAULT_COMMIT_BYTES = 32 * 1024**3
_MAX_BYTES = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest(CommitRequest):
    """A request to compact small files of `table`, or to order its rows along a Z curve with `z_order_by`.

    In a clustered table, the job orders rows by the clustering columns. With `full`, it also rewrites the files that
    are clustered by other columns.
    `where` (SQL on partition columns) selects partitions. See `DeltaOptimizeOperator` for the meaning of each
    parameter.
    """

    kind: ClassVar[str] = "optimize"

    where: str | None = None
    z_order_by: tuple[str, ...] = ()
    target_file_size: int | None = None
    min_file_size: int | None = None
    max_deleted_rows_ratio: float = 0.05
    max_commit_bytes: int = DEFAULT_COMMIT_BYTES
    full: bool = False

    def __post_init__(self) -> None:
        columns: Any = self.z_order_by
        if isinstance(columns, str):
            raise InvalidRequestError(
                f"z_order_by is the text {columns!r}, not a list.", remedy=f"Give a list: [{columns!r}]."
            )
        object.__setattr__(self, "z_order_by", tuple(columns or ()))
        CommitRequest.__post_init__(self)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        if self.where is not None and not self.where.strip():
            yield "where is empty.", "Give a predicate on partition columns, or leave it out for the whole table."
        for column in self.z_order_by:
            if not column.strip():
                yield f"z_order_by contains the empty name {column!r}.", "Give names of columns."
        for name in ("target_file_size", "max_commit_bytes"):
            size = getattr(self, name)
            if size is not None and not 1 <= size <= _MAX_BYTES:
                yield f"{name} is {size}, which is out of range.", f"Give a number of bytes from 1 to {_MAX_BYTES}."
        if self.min_file_size is not None and not 0 <= self.min_file_size <= _MAX_BYTES:
            yield (
                f"min_file_size is {self.min_file_size}, which is out of range.",
                f"Give a number of bytes from 0 to {_MAX_BYTES}.",
            )
        if self.min_file_size is not None and self.z_order_by:
            yield (
                f"min_file_size is {self.min_file_size}, but z_order_by reads files of any size.",
                "Leave one of them out.",
            )
        if not 0 <= self.max_deleted_rows_ratio <= 1:
            yield (
                f"max_deleted_rows_ratio is {self.max_deleted_rows_ratio}, which is out of range.",
                "Give a ratio from 0 to 1.",
            )
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to run the operation again on the newest version, or 'skip'.",
        )

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(OptimizeRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["z_order_by"] = tuple(body.get("z_order_by", ()))
        return body
