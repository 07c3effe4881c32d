"""The request of a copy task, which loads each file of a folder once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from deltalite.requests.audits import Audit, audit_list_faults, audits_of
from deltalite.requests.base import CommitRequest, Fault, faults_of_rerun_replace, repeated_name, retention_faults
from deltalite.requests.quarantine import copy_quarantine_faults
from deltalite.requests.source import Source, query_faults
from deltalite.requests.source_paths import is_hidden, split_address

_FORMATS = ("csv", "json", "parquet", "orc", "avro", "text")
_QUOTE_HANDLING = "STOP_AT_DELIMITER"  # Spark's default for `unescapedQuoteHandling`
_FORMATS_WITHOUT_TYPES = ("csv", "json")
# With these options, Spark would read other files, or leave out data that counts as loaded.
_REFUSED_OPTIONS: Mapping[str, str] = {
    "path": "Use `path` of the source.",
    "paths": "Use `path` of the source, or `file_names`.",
    "basepath": "Leave it out: the path of the source is the base of partition folders.",
    "pathglobfilter": "Use `pattern`.",
    "recursivefilelookup": "Leave it out: the task lists subfolders too.",
    "modifiedbefore": "Leave it out: the table knows which files are new.",
    "modifiedafter": "Leave it out: the table knows which files are new.",
    "ignorecorruptfiles": "Leave it out: rows of corrupt files would be lost.",
    "ignoremissingfiles": "Leave it out: rows of missing files would be lost.",
    "ignoreextension": "Leave it out, and select files with `pattern`.",
    "samplingratio": "Leave it out: columns of the other records would be lost.",
    "mergeschema": "Leave it out: the task reads the columns of all files.",
    "mode": "Leave it out: a bad record fails the task, or goes to `quarantine`.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest(CommitRequest):
    """A request to append to `table` the rows of the files of `source` that no earlier commit has loaded.

    See `DeltaCopyOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "copy"
    incidental_fields: ClassVar[frozenset[str]] = CommitRequest.incidental_fields | {
        "max_records_per_file",
        "optimize_write",
        "properties",
        "max_bad_share",
    }

    source: Source
    pattern: str | None = None
    file_names: tuple[str, ...] | None = None
    query: str | None = None
    query_params: Mapping[str, object] = field(default_factory=dict)
    force: bool = False
    validate_only: int | None = None
    file_column: str | None = None
    merge_schema: bool = False
    max_files: int | None = None
    max_bytes: int | None = None
    partition_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    max_records_per_file: int | None = None
    optimize_write: bool = False
    audits: tuple[Audit, ...] = ()
    quarantine: str | None = None
    max_bad_share: float | None = None

    @property
    def operation(self) -> str:
        """The name of the operation in the table's history, as in Databricks."""
        return "COPY INTO"

    @property
    def sources(self) -> Mapping[str, Source]:
        """The source by the name of its view."""
        return {"source": self.source}

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        yield from _source_faults(self.source)
        yield from query_faults(self.sources, self.query, self.query_params)
        yield from _selection_faults(self)
        for name in ("validate_only", "max_files", "max_bytes", "max_records_per_file"):
            number = getattr(self, name)
            if number is not None and number < 1:
                yield f"{name} is {number}, which is not positive.", "Give a positive number, or leave it out."
        if self.query is not None and self.source.schema is None and self.source.format in _FORMATS_WITHOUT_TYPES:
            yield (
                f"The query reads {self.source.format} files without a schema, so each run could infer other types.",
                "Give `schema` in the source.",
            )
        if self.file_column is not None and not self.file_column.strip():
            yield "file_column is empty.", "Give the name of a column, or leave it out."
        repeated_column = repeated_name(self.partition_by or ())
        if repeated_column is not None:
            yield f"partition_by names '{repeated_column}' twice.", "Name each column once."
        yield from retention_faults(self.properties, "the record of loaded files")
        yield from audit_list_faults(self.audits)
        yield from copy_quarantine_faults(self)
        remedy = "Use on_rerun='skip', or 'write' to load the files that are new since then."
        yield from faults_of_rerun_replace(self.identity, "the operation loads each file once", remedy)

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(CopyRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["source"] = Source(**body["source"])
        body["audits"] = audits_of(body.get("audits", ()))
        for name in ("file_names", "partition_by"):
            if body.get(name) is not None:
                body[name] = tuple(body[name])
        return body


def _source_faults(source: Source) -> Iterator[Fault]:
    if source.format not in _FORMATS:
        yield f"The format of the source is '{source.format}'.", f"Choose one of {', '.join(_FORMATS)}."
    if not source.path:
        yield "The source has no path.", "Give the folder of the files, or a pattern."
    if source.format == "avro" and source.schema is None:
        yield (
            "The source has Avro files without a schema, so Spark takes the columns of one file for all files.",
            "Give `schema` in the source.",
        )
    for name in source.options:
        if name.lower() in _REFUSED_OPTIONS:
            yield f"The source has the option {name!r}.", _REFUSED_OPTIONS[name.lower()]
    options = {name.lower(): str(value).upper() for name, value in source.options.items()}
    if options.get("header") == "TRUE" and options.get("unescapedquotehandling", _QUOTE_HANDLING) != _QUOTE_HANDLING:
        yield (
            "The source has the options 'header' and 'unescapedQuoteHandling'.",
            f"Leave the second option out: the task reads headers as with {_QUOTE_HANDLING}.",
        )


def _selection_faults(request: CopyRequest) -> Iterator[Fault]:
    """Yield the faults of the parameters that select files."""
    _, path_pattern = split_address(request.source.path or "")
    if path_pattern and request.file_names is not None:
        yield "The path of the source is a pattern, and the request has file_names.", "Give the folder as the path."
    if path_pattern and request.pattern is not None and "/" in request.pattern:
        yield (
            "The path of the source is a pattern, and `pattern` contains '/': both are patterns for paths.",
            "Write one pattern, in the path.",
        )
    if request.pattern is not None and not request.pattern.strip("/ "):
        yield "pattern is empty.", "Give a pattern such as '*.csv', or leave it out."
    if request.file_names is not None:
        if request.pattern is not None:
            yield "The request has file_names and pattern, which both select files.", "Keep one of them."
        if not request.file_names:
            yield "file_names names no file.", "Give at least one name, or leave it out."
        yield from _file_name_faults(request.file_names)
    if request.force and (request.max_files is not None or request.max_bytes is not None):
        yield (
            "force loads the same files in each run, so a run with max_files or max_bytes never loads the other files.",
            "Leave max_files and max_bytes out, or select files with file_names or pattern.",
        )


def _file_name_faults(names: Sequence[str]) -> Iterator[Fault]:
    for name in names:
        if not name.strip("/ ") or name.startswith("/") or "://" in name:
            yield f"file_names contains {name!r}.", "Give names that are relative to the path of the source."
        elif any(part in ("", ".", "..") for part in name.split("/")):
            yield f"file_names contains {name!r}, which has an empty part, '.' or '..'.", "Write the plain name."
        elif any(is_hidden(part) for part in name.split("/")):
            yield (
                f"file_names contains {name!r}, which is hidden, so Spark ignores it.",
                "Give no name that begins with '_' or '.', or ends with '._COPYING_'.",
            )
