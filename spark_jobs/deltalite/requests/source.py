"""The sources of a request and the query over them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import CommitRequest, Fault, convert_to_enum
from deltalite.requests.csv_options import csv_option_faults
from deltalite.requests.incremental import BY_ADDRESS, OnChange, OnGap, SourceRead, incremental_faults

_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_READ_ROW_IDS = "readrowids"
_FIELDS_OF_ALL_REQUESTS_WITH_SOURCES = (
    "table",
    "single_writer",
    "identity",
    "approval",
    "user_metadata",
    "conflict_retries",
    "conflict_seconds",
    "sources",
    "query",
    "query_params",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source: any Spark data source, a Delta table at a version or time, or the changes of a Delta table.

    `version_as_of` and `timestamp_as_of` (ISO 8601) need the format `delta` and exclude each other.
    `changes_from_version` and `changes_to_version` need the format `delta` too. They select versions of the change data
    feed, both inclusive; without `changes_to_version`, the range ends with the newest version. `schema` is Spark DDL. A
    Delta source takes no `schema`, and only the option `readRowIds`.

    `incremental` makes each run load the new commits of a Delta table. Its text names the flow; with True, the address
    does. `read` (default `appends`), `starting_version`, `max_versions`, `max_bytes`, `on_gap` and `on_change` (default
    `fail`) need it. A flow without an offset loads the versions from `starting_version` on, or by default the snapshot.
    """

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    version_as_of: int | None = None
    timestamp_as_of: str | None = None
    changes_from_version: int | None = None
    changes_to_version: int | None = None
    incremental: str | None = None
    read: SourceRead | None = None
    starting_version: int | None = None
    max_versions: int | None = None
    max_bytes: int | None = None
    on_gap: OnGap | None = None
    on_change: OnChange | None = None

    def __post_init__(self) -> None:
        self._convert_incremental()
        if not self.format:
            raise InvalidRequestError(
                "The source has no format.", remedy="Give a format: 'csv', 'parquet', 'delta', ..."
            )
        for problem, remedy in incremental_faults(self):
            raise InvalidRequestError(problem, remedy=remedy)
        has_version = self.version_as_of is not None or self.timestamp_as_of is not None
        self._check_changes(has_version=has_version)
        if self.version_as_of is not None and self.timestamp_as_of is not None:
            raise InvalidRequestError(
                "The source names both version_as_of and timestamp_as_of.", remedy="Keep one of them."
            )
        if self.format.lower() == "csv":
            for problem, remedy in csv_option_faults(self.options):
                raise InvalidRequestError(problem, remedy=remedy)
        if self.format.lower() != "delta":
            if has_version:
                raise InvalidRequestError(
                    "version_as_of and timestamp_as_of need format 'delta', but the format of this source is "
                    f"'{self.format}'.",
                    remedy="Change the format, or leave them out.",
                )
            return
        if not self.path:
            raise InvalidRequestError("A source of format 'delta' has no path.", remedy="Give the table's address.")
        if self.schema is not None:
            raise InvalidRequestError(
                "A source of format 'delta' takes its schema from the table.",
                remedy="Remove `schema`; select or cast in `query`.",
            )
        self._check_delta_options()

    @property
    def reads_changes(self) -> bool:
        """Whether the source loads the change data feed incrementally."""
        return self.read is SourceRead.CHANGES

    @property
    def reads_row_ids(self) -> bool:
        """Whether the rows of the source contain the columns `_row_id` and `_row_commit_version`."""
        return any(key.lower() == _READ_ROW_IDS and value.lower() == "true" for key, value in self.options.items())

    def _convert_incremental(self) -> None:
        """Convert a boolean `incremental` to text or None, and texts to members of their enumerations."""
        text = str(self.incremental).lower()
        if text in (BY_ADDRESS, "false"):
            object.__setattr__(self, "incremental", text if text == BY_ADDRESS else None)
        for name, enum in (("read", SourceRead), ("on_gap", OnGap), ("on_change", OnChange)):
            if getattr(self, name) is not None:
                convert_to_enum(self, name, enum)

    def _check_delta_options(self) -> None:
        for key, value in self.options.items():
            if key.lower() != _READ_ROW_IDS or value.lower() not in ("true", "false"):
                raise InvalidRequestError(
                    f"A source of format 'delta' has the option {key!r} with the value {value!r}. Its only option is "
                    "readRowIds, which is 'true' or 'false'.",
                    remedy="Remove the option, or correct its value.",
                )
        if self.reads_row_ids and self.changes_from_version is not None:
            raise InvalidRequestError(
                "The source names both the option readRowIds and a range of changes, which have no row ids.",
                remedy="Keep one of them.",
            )

    def _check_changes(self, *, has_version: bool) -> None:
        from_version, to_version = self.changes_from_version, self.changes_to_version
        if from_version is None and to_version is None:
            return
        if self.format.lower() != "delta":
            raise InvalidRequestError(
                f"changes_from_version and changes_to_version need format 'delta', but the format of this source is "
                f"'{self.format}'.",
                remedy="Change the format, or leave them out.",
            )
        if has_version:
            raise InvalidRequestError(
                "The source names both a version or time of the table and a range of its changes.",
                remedy="Keep one of them.",
            )
        if from_version is None:
            raise InvalidRequestError(
                "The source has changes_to_version without changes_from_version.", remedy="Give the first version too."
            )
        if from_version < 0 or (to_version is not None and to_version < from_version):
            raise InvalidRequestError(
                f"Invalid range of changes: from version {from_version} to "
                f"{'the newest' if to_version is None else to_version}.",
                remedy="Give versions of 0 or more, the lower one first.",
            )


def query_faults(
    sources: Mapping[str, Source], query: str | None, query_params: Mapping[str, object]
) -> Iterator[Fault]:
    """Yield the faults of the sources, the query and its parameters, each with its remedy."""
    if not sources:
        yield "The request has no source.", "Give `source` or `sources`."
    if len(sources) > 1 and query is None:
        yield (
            f"The request has {len(sources)} sources but no query that joins them.",
            "Give a `query` that names the views by the keys of `sources`.",
        )
    if len({name.lower() for name in sources}) < len(sources):
        yield (
            f"Two sources differ only in case: {', '.join(sources)}.",
            "Rename one of them: Spark ignores the case of view names.",
        )
    if query is not None and not query.strip():
        yield "`query` is empty.", "Leave it out to take the rows of the source."
    if query_params and query is None:
        yield "The request has query_params but no query.", "Give a `query` with a `:name` for each, or leave them out."
    for name, value in query_params.items():
        if not _PARAMETER_NAME.fullmatch(name):
            yield f"Invalid name {name!r} in query_params.", "Use letters, digits and underscores."
        if not isinstance(value, str | int | float | None):
            yield (
                f"The value of '{name}' in query_params is a {type(value).__name__}.",
                "Give a text, a number, true, false or null; cast it in the query: CAST(:day AS DATE).",
            )


def sources_of(body: Mapping[str, Mapping[str, Any]]) -> dict[str, Source]:
    """Build the sources from a request's JSON."""
    return {name: Source(**source) for name, source in body.items()}


def fields_with_sources(request: CommitRequest) -> dict[str, Any]:
    """Return the fields that all requests with sources share: the run, the table, the sources and the query.

    A command copies them to the request of the write or the merge that it runs.
    """
    return {name: getattr(request, name) for name in _FIELDS_OF_ALL_REQUESTS_WITH_SOURCES}
