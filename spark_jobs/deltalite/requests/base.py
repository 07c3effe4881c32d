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


class OutOfOrder(StrEnum):
    """What a task does when runs of later data intervals have changed rows that it may touch."""

    FAIL = "fail"
    WARN = "warn"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Who is writing: the key of idempotency, and what history shows of the run.

    `app_id` names the DAG run's task, or the author's own key. `txn_version` is the lowest transaction version that the
    run may commit: its generation where the policy is to write again after a clear, else 0. Protocol: Transaction
    Identifiers.

    `details` (dag, task, run, try, map index, data interval), `generation` and the digests go to
    `commitInfo.userMetadata`. `request_digest` is the digest of what the task asks for, `parameter_digests` has a short
    one of each parameter. `sibling_ids` is what the app ids of the other mapped tasks of a DAG run begin and end with;
    None where no position identifies the task. `is_of_cleared_run` says that tasks of the DAG run may have been
    cleared, after which another position may identify a mapped item.
    """

    app_id: str
    txn_version: int = 0
    on_rerun: OnRerun = OnRerun.SKIP
    details: Mapping[str, str | int] = field(default_factory=dict)
    generation: int = 0
    request_digest: str | None = None
    parameter_digests: Mapping[str, str] = field(default_factory=dict)
    sibling_ids: tuple[str, str] | None = None
    is_of_cleared_run: bool = True

    def __post_init__(self) -> None:
        choose(self, "on_rerun", OnRerun)
        if not self.app_id:
            raise InvalidRequestError("The run has an empty app id.", remedy="Name the run that writes.")
        if self.txn_version < 0:
            raise InvalidRequestError(
                f"The transaction version {self.txn_version} is negative.", remedy="Count generations from 0."
            )

    @property
    def provenance(self) -> dict[str, Any]:
        """What `commitInfo.userMetadata` says about the run, as JSON values; empty where nothing names the run."""
        values: dict[str, Any] = dict(self.details)
        if self.request_digest is not None:
            values |= {"generation": self.generation, "request": self.request_digest}
            values["parameters"] = dict(self.parameter_digests)
        return values

    @property
    def is_mapped_by_position(self) -> bool:
        """Whether the app id names a mapped item by its position alone."""
        index = self.details.get("map_index")
        return isinstance(index, int) and index >= 0 and "idempotency_key" not in self.details


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

    def to_json(self, *, nonce: str | None = None) -> str:
        """One line of JSON; `from_json` gives an equal request. The job repeats the nonce in its marker lines."""
        head = {"schema_version": SCHEMA_VERSION, "kind": self.kind} | ({} if nonce is None else {"nonce": nonce})
        return json.dumps({**head, **_plain(self)}, sort_keys=True)

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
        body.pop("nonce", None)  # is read by `results.nonce_of`
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

    incidental: ClassVar[frozenset[str]] = frozenset(
        {
            "identity",
            "table",
            "single_writer",
            "user_metadata",
            "conflict_retries",
            "conflict_seconds",
            "out_of_order",
            "confirm_all_rows",
        }
    )
    """The fields that do not decide which rows are written: the digest of a request leaves them out."""

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
            identity = body["identity"]
            siblings = identity.get("sibling_ids")
            body["identity"] = RunIdentity(**{**identity, "sibling_ids": siblings and tuple(siblings)})
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
