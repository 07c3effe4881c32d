"""The request of a checkpoint task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deltalite.requests.base import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest(Request):
    """A request to write the checkpoint of the newest version of `table`.

    With `log_cleanup`, the job also deletes expired files of the log.
    See `DeltaCheckpointOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "checkpoint"

    log_cleanup: bool = True
