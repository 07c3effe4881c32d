"""The run behind a commit: the JSON object in `commitInfo.userMetadata`.

`RunIdentity.provenance` makes the object, and `RunProvenance` parses it. A run compares the object with its identity to
decide whether it made an earlier commit. Other writers also set this field, so a value of an unexpected type counts as
absent.
Protocol: Commit Provenance Information.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

DIGEST_SCHEME = "1:"
"""The prefix of a request digest. Digests of different schemes cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProvenance:
    """The run behind a commit. A field is None, empty or False if the commit does not contain it.

    Earlier releases wrote fewer fields.

    `generation` is the number of clears of the task before the commit. `request_digest` is the digest of the task's
    request, and `parameter_digests` contains a short digest of each parameter. `run_start` is the start of the DAG run;
    it differs if the finished run was cleared, or deleted and created again with the same id. `out_of_order` is True if
    runs of later data intervals had committed earlier.
    """

    dag_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    map_index: int | None = None
    idempotency_key: str | None = None
    generation: int | None = None
    request_digest: str | None = None
    parameter_digests: Mapping[str, str] = field(default_factory=dict)
    run_start: str | None = None
    logical_date: str | None = None
    data_interval_start: str | None = None
    data_interval_end: str | None = None
    out_of_order: bool = False

    @classmethod
    def from_text(cls, text: object) -> Self:
        """Parse `commitInfo.userMetadata`; return an empty provenance if it is not a JSON object."""
        if not isinstance(text, str) or not text.startswith("{"):
            return cls()
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return cls()
        return cls.from_values(values)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Return the provenance in a parsed JSON object."""

        def text_of(name: str) -> str | None:
            value = values.get(name)
            return value if isinstance(value, str) else None

        def number_of(name: str) -> int | None:
            value = values.get(name)
            return value if isinstance(value, int) and not isinstance(value, bool) else None

        parameters = values.get("parameters")
        return cls(
            dag_id=text_of("dag_id"),
            task_id=text_of("task_id"),
            run_id=text_of("run_id"),
            map_index=number_of("map_index"),
            idempotency_key=text_of("idempotency_key"),
            generation=number_of("generation"),
            request_digest=text_of("request"),
            parameter_digests=_text_values(parameters) if isinstance(parameters, Mapping) else {},
            run_start=text_of("run_start"),
            logical_date=text_of("logical_date"),
            data_interval_start=text_of("data_interval_start"),
            data_interval_end=text_of("data_interval_end"),
            out_of_order=values.get("out_of_order") is True,
        )

    @property
    def has_comparable_digest(self) -> bool:
        """Whether the commit contains a request digest that this release can compare."""
        return self.request_digest is not None and self.request_digest.startswith(DIGEST_SCHEME)

    def is_same_task_instance(self, other: RunProvenance) -> bool:
        """Whether both runs are of the same task instance: DAG, task, DAG run and map index."""
        return self._task_instance == other._task_instance

    def has_same_request(self, other: RunProvenance) -> bool:
        """Whether both runs have the same request digest, and this release can compare it."""
        return self.has_comparable_digest and self.request_digest == other.request_digest

    def differing_parameters(self, other: RunProvenance) -> list[str]:
        """Return the sorted names of the parameters with different digests."""
        digests, other_digests = self.parameter_digests, other.parameter_digests
        return sorted(
            name for name in digests.keys() | other_digests.keys() if digests.get(name) != other_digests.get(name)
        )

    @property
    def _task_instance(self) -> tuple[str | int | None, ...]:
        return self.dag_id, self.task_id, self.run_id, self.map_index

    def __str__(self) -> str:
        index = "" if self.map_index is None or self.map_index < 0 else f"[{self.map_index}]"
        digest = (self.request_digest or "unknown").removeprefix(DIGEST_SCHEME)[:12]
        return f"{self.dag_id}.{self.task_id}{index}, run {self.run_id}, generation {self.generation}, request {digest}"


def parse_time(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time of a provenance to UTC; return None if it is absent or invalid."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _text_values(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in values.items() if isinstance(value, str)}
