"""The base of all requests: a frozen dataclass that validates its fields in its constructor, and its JSON form.

The constructor checks everything that does not depend on the table; the command checks the rest. `from_json` reads the
output of `to_json`. The JSON carries a schema version, because the worker that writes a request and the job that reads
it may run different releases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from deltalite.errors import InvalidRequestError
from deltalite.requests.approvals import Approval

SCHEMA_VERSION = 1
_RETENTION = "delta.settransactionretentionduration"
_SAME_RELEASE_REMEDY = "Install the same release of airflow-provider-deltalite on the workers and on Spark."
Fault = tuple[str, str]
"""The problem of an invalid request, and the remedy."""


class OnRerun(StrEnum):
    """The behavior of a task if its run, or another run with the same `idempotency_key`, has committed before.

    A retry does not depend on the value: it returns the commit of the earlier attempt.
    """

    SKIP = "skip"
    WRITE = "write"
    REPLACE = "replace"


class OutOfOrder(StrEnum):
    """The behavior of a task if runs of later data intervals have changed rows that it may touch."""

    FAIL = "fail"
    WARN = "warn"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The identity of a run: the key of idempotency, and the details that history shows.

    `app_id` is made from the DAG run and the task, or from the author's `idempotency_key`. `txn_version` is the lowest
    transaction version that the run may commit: 0 with `on_rerun="skip"`, else the generation.
    Protocol: Transaction Identifiers.

    The commit stores `details` (such as the DAG, the task, the run, the try number, the map index and the data
    interval), `generation` (the number of clears) and the digests of the request and of each parameter in
    `commitInfo.userMetadata`.

    The other mapped tasks of the DAG run have app ids that differ only in the map index. `sibling_ids` has the prefix
    and the suffix that these app ids share. It is None if the app id does not contain a map index. `is_of_cleared_run`
    is True if tasks of the DAG run were cleared, or if this is unknown. A mapped item may then have another map index
    than before.
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
        convert_to_enum(self, "on_rerun", OnRerun)
        if not self.app_id:
            raise InvalidRequestError("The run has an empty app id.", remedy="Set the app id of the run that writes.")
        if self.txn_version < 0:
            raise InvalidRequestError(
                f"The transaction version {self.txn_version} is negative.", remedy="Give 0 or more."
            )

    @property
    def provenance(self) -> dict[str, Any]:
        """The content of `commitInfo.userMetadata` as JSON values; empty without details and digest."""
        values: dict[str, Any] = dict(self.details)
        if self.request_digest is not None:
            values |= {"generation": self.generation, "request": self.request_digest}
            values["parameters"] = dict(self.parameter_digests)
        return values

    @property
    def is_mapped_by_position(self) -> bool:
        """Whether the app id identifies a mapped item by its map index alone."""
        index = self.details.get("map_index")
        return isinstance(index, int) and index >= 0 and "idempotency_key" not in self.details


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The base class of all requests. `table` is the table's address, and `kind` names the class in JSON.

    With `single_writer`, the author asserts that no other process writes to the table. The job then accepts storage
    without atomic creation of files.
    """

    kind: ClassVar[str]

    table: str
    single_writer: bool = False

    def __post_init__(self) -> None:
        if not self.table:
            raise InvalidRequestError("The request names no table.", remedy="Give the table's address.")

    def to_json(self, *, nonce: str | None = None) -> str:
        """Serialize the request to one line of JSON, which `from_json` reads.

        The job prints `nonce` in its marker lines.
        """
        head = {"schema_version": SCHEMA_VERSION, "kind": self.kind} | ({} if nonce is None else {"nonce": nonce})
        return json.dumps({**head, **_to_plain_json(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`.

        Raises:
            InvalidRequestError: the text is not JSON, is of another kind or schema version, or contains an
                unknown or invalid field.
        """
        try:
            body = json.loads(text)
        except ValueError as error:
            raise InvalidRequestError(f"The request is not JSON: {error}.", remedy=_SAME_RELEASE_REMEDY) from error
        if not isinstance(body, dict):
            raise InvalidRequestError("The request is not a JSON object.", remedy=_SAME_RELEASE_REMEDY)
        version, kind = body.pop("schema_version", None), body.pop("kind", None)
        body.pop("nonce", None)  # `markers.nonce_of` reads the nonce.
        if (version, kind) != (SCHEMA_VERSION, cls.kind):
            raise InvalidRequestError(
                f"This job reads {cls.kind} requests of schema version {SCHEMA_VERSION}, "
                f"but got a request of kind {kind!r} and schema version {version!r}.",
                remedy=_SAME_RELEASE_REMEDY,
            )
        unknown_fields = sorted(set(body) - {f.name for f in fields(cls)})
        if unknown_fields:
            raise InvalidRequestError(
                f"The request contains unknown fields: {', '.join(unknown_fields)}.", remedy=_SAME_RELEASE_REMEDY
            )
        try:
            return cls(**cls._convert_values(body))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidRequestError(f"The request is malformed: {error}.", remedy=_SAME_RELEASE_REMEDY) from error

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Convert the JSON values of the fields to the types of the fields."""
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(Request):
    """A request that ends in a commit; the commit carries the identity of the run.

    After a conflict, the command replans the operation up to `conflict_retries` times within the first
    `conflict_seconds` seconds. The commit stores `user_metadata` in `commitInfo`. `approval` is a person's decision on
    audits of level `ask`.
    """

    incidental_fields: ClassVar[frozenset[str]] = frozenset(
        {
            "identity",
            "table",
            "single_writer",
            "user_metadata",
            "conflict_retries",
            "conflict_seconds",
            "out_of_order",
            "confirm_all_rows",
            "audits",
            "approval",
        }
    )
    """The fields that do not affect the written rows. The digest of a request leaves them out."""

    identity: RunIdentity | None = None
    approval: Approval | None = None
    user_metadata: str | None = None
    conflict_retries: int = 3
    conflict_seconds: int = 600

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        for problem, remedy in self.faults():
            raise InvalidRequestError(problem, remedy=remedy)

    @property
    def operation(self) -> str:
        """The name of the operation in the result of a run that commits nothing.

        For a request with sources, the table's history shows the same name.
        """
        return self.kind.upper()

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        for name in ("conflict_retries", "conflict_seconds"):
            maximum = getattr(self, name)
            if maximum < 0:
                yield f"{name} is {maximum}, which is negative.", "Give 0 or more."

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("identity") is not None:
            identity = body["identity"]
            sibling_affixes = identity.get("sibling_ids")
            body["identity"] = RunIdentity(**{**identity, "sibling_ids": sibling_affixes and tuple(sibling_affixes)})
        if body.get("approval") is not None:
            body["approval"] = Approval.from_dict(body["approval"])
        return body


def faults_of_rerun_replace(identity: RunIdentity | None, reason: str, remedy: str) -> Iterator[Fault]:
    """Yield a fault if `on_rerun` is 'replace', which only an append of complete sources supports.

    `reason` says why the request does not support it, such as "the operation is 'delete'".
    """
    if identity is not None and identity.on_rerun is OnRerun.REPLACE:
        yield f"on_rerun='replace' applies only to an append of complete sources, but {reason}.", remedy


def retention_faults(properties: Mapping[str, str], expiring: str) -> Iterator[Fault]:
    """Yield a fault if `properties` let the table's transactions expire. `expiring` says what they hold."""
    if any(name.lower() == _RETENTION for name in properties):
        yield f"delta.setTransactionRetentionDuration lets {expiring} expire.", "Leave the property out."


def repeated_name(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice, ignoring case, as the first occurrence spells it; None if none does."""
    first_spellings: dict[str, str] = {}
    for name in names:
        if name.lower() in first_spellings:
            return first_spellings[name.lower()]
        first_spellings[name.lower()] = name
    return None


def convert_to_enum(request: Any, name: str, enum: type[StrEnum]) -> None:
    """Convert the text in the field `name` to a member of `enum`, because commands compare members by identity.

    Raises:
        InvalidRequestError: no member has this text.
    """
    value = getattr(request, name)
    try:
        object.__setattr__(request, name, enum(value))
    except ValueError:
        raise InvalidRequestError(
            f"{name} is {value!r}, which is not a valid value.", remedy=f"Choose one of {', '.join(enum)}."
        ) from None


def _to_plain_json(value: Any) -> Any:
    """Convert dataclasses and mappings to plain JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _to_plain_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _to_plain_json(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_to_plain_json(v) for v in value]
    return value
