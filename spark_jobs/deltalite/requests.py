"""What an operator asks of a job: the one contract between Airflow and Spark.

A request is a frozen dataclass; its constructor is the gate, so a request that exists makes sense in itself (whether
it fits the table is the command's question). `to_json` and `from_json` are inverse to each other and carry a schema
version, because the worker that writes a request and the package that reads it may differ by a release. Parameters of
operators are written once, here. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from deltalite.errors import InvalidRequestError

SCHEMA_VERSION = 1
_SAME_RELEASE = "Install the same release of airflow-provider-deltalite on the workers and on Spark."


class WriteMode(StrEnum):
    """What a write does with the rows that are already there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"


class PartitionOverwrite(StrEnum):
    """What `overwrite` replaces: everything, or the partitions that receive rows."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class OnRerun(StrEnum):
    """What a cleared task does. A retry always resumes, whatever this says."""

    SKIP = "skip"
    WRITE = "write"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input: any Spark data source, a Delta table at a version or time, or the changes of a Delta table.

    `version_as_of` and `timestamp_as_of` (ISO 8601) belong to format `delta` only, and exclude each other. So do
    `changes_from_version` and `changes_to_version` (both inclusive; to the newest where None), which ask for the change
    data feed. `schema` is Spark DDL text. A Delta source needs no `options`.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    version_as_of: int | None = None
    timestamp_as_of: str | None = None
    changes_from_version: int | None = None
    changes_to_version: int | None = None

    def __post_init__(self) -> None:
        if not self.format:
            raise InvalidRequestError("A source has no format.", remedy="Give one: 'csv', 'parquet', 'delta', ...")
        versioned = self.version_as_of is not None or self.timestamp_as_of is not None
        self._check_changes(versioned=versioned)
        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise InvalidRequestError(
                "The source names both version_as_of and timestamp_as_of.", remedy="Keep one of them."
            )
        if self.format.lower() != "delta":
            if versioned:
                raise InvalidRequestError(
                    f"version_as_of and timestamp_as_of need format 'delta', and this source has '{self.format}'.",
                    remedy="Change the format, or leave them out.",
                )
            return
        if not self.path:
            raise InvalidRequestError("A source of format 'delta' has no path.", remedy="Give the table's address.")
        if self.schema is not None or self.options:
            raise InvalidRequestError(
                "A source of format 'delta' takes its schema from the table and has no reader options.",
                remedy="Remove `schema` and `options`; select or cast in `query`.",
            )

    def _check_changes(self, *, versioned: bool) -> None:
        first, last = self.changes_from_version, self.changes_to_version
        if first is None and last is None:
            return
        if self.format.lower() != "delta":
            raise InvalidRequestError(
                f"changes_from_version and changes_to_version need format 'delta', and this source has "
                f"'{self.format}'.",
                remedy="Change the format, or leave them out.",
            )
        if versioned:
            raise InvalidRequestError(
                "The source asks for the table at a version or time and for its changes.", remedy="Keep one of them."
            )
        if first is None:
            raise InvalidRequestError(
                "The source has changes_to_version without changes_from_version.", remedy="Give the first version too."
            )
        if first < 0 or (last is not None and last < first):
            raise InvalidRequestError(
                f"The source asks for changes from version {first} to {'the newest' if last is None else last}.",
                remedy="Give versions from 0 on, in order.",
            )


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
        _choose(self, "on_rerun", OnRerun)
        if not self.app_id:
            raise InvalidRequestError("The run has an empty app id.", remedy="Name the run that writes.")
        if self.txn_version < 0:
            raise InvalidRequestError(
                f"The transaction version {self.txn_version} is negative.", remedy="Count generations from 0."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What every request names. `kind` tells one request from another where they are text.

    `table` is the table's address; `single_writer` accepts a storage that cannot keep two writers apart.
    """

    kind: ClassVar[str]

    table: str
    single_writer: bool = False

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
    """A request that ends in a commit, which carries the identity of the run that asks for it."""

    identity: RunIdentity | None = None

    @classmethod
    def _typed(cls, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("identity") is not None:
            body["identity"] = RunIdentity(**body["identity"])
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRequest(Request):
    """Write the checkpoint of the newest version of `table`, and clean its log where `log_cleanup` is set.

    See `DeltaCheckpointOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "checkpoint"

    log_cleanup: bool = True

    def __post_init__(self) -> None:
        if not self.table:
            raise InvalidRequestError("The request names no table.", remedy="Give the table's address.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest(CommitRequest):
    """Write the rows of `sources` (through `query`, where given) to `table`.

    Sizes are in rows, durations in seconds; every name is a column of the rows to be written. See `DeltaWriteOperator`
    for the meaning of each parameter.
    """

    kind: ClassVar[str] = "write"

    sources: Mapping[str, Source]
    query: str | None = None
    mode: WriteMode = WriteMode.APPEND
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    partition_overwrite: PartitionOverwrite = PartitionOverwrite.STATIC
    merge_schema: bool = False
    overwrite_schema: bool = False
    max_records_per_file: int | None = None
    optimize_write: bool = False
    data_change: bool = True
    user_metadata: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    conflict_retries: int = 3
    conflict_seconds: int = 600

    def __post_init__(self) -> None:
        _choose(self, "mode", WriteMode)
        _choose(self, "partition_overwrite", PartitionOverwrite)
        for problem, remedy in _contradictions(self):
            raise InvalidRequestError(problem, remedy=remedy)

    @classmethod
    def _typed(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(WriteRequest, cls)._typed(body)  # a class with slots is made anew, and `super()` knows the old one
        body["sources"] = {name: Source(**source) for name, source in body["sources"].items()}
        if body.get("partition_by") is not None:
            body["partition_by"] = tuple(body["partition_by"])
        return body


def _choose(record: Any, name: str, choices: type[StrEnum]) -> None:
    """Make a field that was given as text one of its choices: commands compare them by identity."""
    value = getattr(record, name)
    try:
        object.__setattr__(record, name, choices(value))
    except ValueError:
        raise InvalidRequestError(
            f"{name} is {value!r}, which is not known.", remedy=f"Choose one of {', '.join(choices)}."
        ) from None


def _contradictions(request: WriteRequest) -> list[tuple[str, str]]:
    """What cannot be meant, as (problem, remedy), most telling first."""
    overwrites = request.mode is WriteMode.OVERWRITE
    dynamic = request.partition_overwrite is PartitionOverwrite.DYNAMIC
    found: list[tuple[str, str]] = []

    def refuse(when: bool, problem: str, remedy: str) -> None:  # noqa: FBT001  reads as "refuse when"
        if when:
            found.append((problem, remedy))

    refuse(not request.table, "The request names no table.", "Give the table's address.")
    refuse(not request.sources, "The request has no source.", "Give `source` or `sources`.")
    refuse(
        len(request.sources) > 1 and request.query is None,
        f"There are {len(request.sources)} sources and no query that joins them.",
        "Give `query`, naming the views by the keys of `sources`.",
    )
    names = [name.lower() for name in request.sources]
    refuse(
        len(set(names)) < len(names),
        f"Two sources differ only in case: {', '.join(request.sources)}.",
        "Name them apart: Spark's views do not tell them by case.",
    )
    refuse(
        request.query is not None and not request.query.strip(),
        "`query` is empty.",
        "Leave it out to write the source.",
    )
    refuse(
        request.replace_where is not None and not overwrites,
        f"replace_where needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or leave replace_where out.",
    )
    refuse(
        request.replace_where is not None and not request.replace_where.strip(),
        "replace_where is empty.",
        "Give a predicate, or leave it out to overwrite the whole table.",
    )
    refuse(
        request.replace_where is not None and dynamic,
        "replace_where and partition_overwrite='dynamic' both say what is replaced.",
        "Keep one of them.",
    )
    refuse(
        dynamic and not overwrites,
        f"partition_overwrite='dynamic' needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or leave partition_overwrite out.",
    )
    refuse(
        request.overwrite_schema and not overwrites,
        f"overwrite_schema needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or use merge_schema to add columns.",
    )
    refuse(
        request.overwrite_schema and (dynamic or request.replace_where is not None),
        "overwrite_schema replaces the whole table's schema, and only a part of the rows is replaced.",
        "Leave out overwrite_schema, or overwrite the whole table.",
    )
    for name in ("conflict_retries", "conflict_seconds"):
        given = getattr(request, name)
        refuse(given < 0, f"{name} is {given}.", "Give 0 or more.")
    refuse(
        request.max_records_per_file is not None and request.max_records_per_file < 1,
        f"max_records_per_file is {request.max_records_per_file}.",
        "Give a positive number, or leave it out.",
    )
    refuse(
        not request.data_change and not overwrites,
        "data_change=False says that the rows are only rearranged, and that needs mode 'overwrite'.",
        "Set mode='overwrite', or leave data_change out.",
    )
    duplicates = [
        c for c in request.partition_by or () if [p.lower() for p in request.partition_by or ()].count(c.lower()) > 1
    ]
    refuse(bool(duplicates), f"partition_by names {duplicates[:1]} twice.", "Name each column once.")
    replaces = request.identity is not None and request.identity.on_rerun is OnRerun.REPLACE
    refuse(
        replaces and request.mode is not WriteMode.APPEND,
        f"on_rerun='replace' takes back an earlier append, and the mode is '{request.mode}'.",
        "Use on_rerun='write': an overwrite replaces its rows anyway.",
    )
    return found


def _plain(value: Any) -> Any:
    """Dataclasses and mappings as plain JSON values, one level of name for each field."""
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value
