"""What all requests are: a frozen dataclass whose constructor is the gate, and its JSON.

A request that exists makes sense in itself; whether it fits the table is the command's question. `to_json` and
`from_json` are inverse to each other and carry a schema version, because the worker that writes a request and the
package that reads it may differ by a release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from deltalite.errors import InvalidRequestError

SCHEMA_VERSION = 1
_SAME_RELEASE = "Install the same release of airflow-provider-deltalite on the workers and on Spark."
Contradiction = tuple[str, str]
"""What cannot be meant, and what to do about it."""


class OnRerun(StrEnum):
    """What a cleared task does. A retry always resumes, whatever this says."""

    SKIP = "skip"
    WRITE = "write"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Who is writing: the key of idempotency, and what history shows of the run.

    `app_id` names the DAG run's task, `txn_version` its generation (0, and higher after the task was cleared where the
    policy is to write again). Protocol: Transaction Identifiers. `details` (dag, task, run, try, map index) goes to
    `commitInfo.userMetadata`.
    """

    app_id: str
    txn_version: int = 0
    on_rerun: OnRerun = OnRerun.SKIP
    details: Mapping[str, str | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choose(self, "on_rerun", OnRerun)
        if not self.app_id:
            raise InvalidRequestError("The run has an empty app id.", remedy="Name the run that writes.")
        if self.txn_version < 0:
            raise InvalidRequestError(
                f"The transaction version {self.txn_version} is negative.", remedy="Count generations from 0."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What every request names: the table's address. `kind` tells one request from another where they are text.

    `single_writer` says that nobody else writes to the table, and so accepts a storage that does not keep two apart.
    """

    kind: ClassVar[str]

    table: str
    single_writer: bool = False

    def __post_init__(self) -> None:
        if not self.table:
            raise InvalidRequestError("The request names no table.", remedy="Give the table's address.")

    def to_json(self) -> str:
        """One line of JSON; `from_json` gives an equal request."""
        return json.dumps({"schema_version": SCHEMA_VERSION, "kind": self.kind, **_plain(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse what `to_json` wrote. Raises `InvalidRequestError` for another schema version or an unknown field."""
        try:
            body = json.loads(text)
        except ValueError as error:
            raise InvalidRequestError(f"The request is not JSON: {error}.", remedy=_SAME_RELEASE) from error
        if not isinstance(body, dict):
            raise InvalidRequestError("The request is not a JSON object.", remedy=_SAME_RELEASE)
        version, kind = body.pop("schema_version", None), body.pop("kind", None)
        if (version, kind) != (SCHEMA_VERSION, cls.kind):
            raise InvalidRequestError(
                f"This job reads {cls.kind} requests of schema version {SCHEMA_VERSION}, "
                f"and got {kind!r} of version {version!r}.",
                remedy=_SAME_RELEASE,
            )
        unknown = sorted(set(body) - {f.name for f in fields(cls)})
        if unknown:
            raise InvalidRequestError(f"The request has unknown fields: {', '.join(unknown)}.", remedy=_SAME_RELEASE)
        try:
            return cls(**cls._typed(body))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequestError(f"The request is malformed: {error}.", remedy=_SAME_RELEASE) from error

    @classmethod
    def _typed(cls, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON values as the types of the fields."""
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(Request):
    """A request that ends in a commit, which carries the identity of the run that asks for it.

    An operation that another writer contradicts is planned again, `conflict_retries` times at most and in the first
    `conflict_seconds` only. `user_metadata` goes to `commitInfo`.
    """

    identity: RunIdentity | None = None
    user_metadata: str | None = None
    conflict_retries: int = 3
    conflict_seconds: int = 600

    def __post_init__(self) -> None:
        for problem, remedy in self.contradictions():
            raise InvalidRequestError(problem, remedy=remedy)

    def contradictions(self) -> Iterator[Contradiction]:
        """What cannot be meant, most telling first."""
        if not self.table:
            yield "The request names no table.", "Give the table's address."
        for name in ("conflict_retries", "conflict_seconds"):
            given = getattr(self, name)
            if given < 0:
                yield f"{name} is {given}.", "Give 0 or more."

    @classmethod
    def _typed(cls, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("identity") is not None:
            body["identity"] = RunIdentity(**body["identity"])
        return body


def choose(record: Any, name: str, choices: type[StrEnum]) -> None:
    """Make a field that was given as text one of its choices: commands compare them by identity."""
    value = getattr(record, name)
    try:
        object.__setattr__(record, name, choices(value))
    except ValueError:
        raise InvalidRequestError(
            f"{name} is {value!r}, which is not known.", remedy=f"Choose one of {', '.join(choices)}."
        ) from None


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as plain JSON values, one level of name for each field."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value
