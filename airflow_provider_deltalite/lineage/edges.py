"""The inputs and outputs of a task, from its request and, once it is known, its result.

The table of a request is an output if the operation commits to it. It is an input if the operation only reads it (a
checkpoint, a check, manifests, a dry run). The outputs of a maintenance of many tables are the tables of its request.
As soon as the result is known, the outputs are the changed tables.

The table of a commit is also an input if a source names it. Otherwise it is an output only, because the graph would be
circular; the run facet has the version that was read. Sources are inputs, and so are tables that audits refer to. A
Delta source has the version that was read, if that version is known.

Only a new commit has statistics. If a run finds the commit of an earlier attempt, its output has the version but no
statistics, so that the rows do not count twice. A quarantine table is an output too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_deltalite.lineage.naming import DatasetName, dataset_name, folder_before_pattern
from deltalite.errors import InvalidTableAddressError
from deltalite.requests import (
    Audit,
    CheckpointRequest,
    CheckRequest,
    CopyRequest,
    GenerateManifestRequest,
    MaintainRequest,
    MergeRequest,
    PartitionOverwrite,
    Request,
    ScdRequest,
    Source,
    VacuumRequest,
    WriteMode,
    WriteRequest,
)
from deltalite.storage.versioned_path import parse_versioned_path

if TYPE_CHECKING:
    from deltalite.results import AuditResult, OperationResult

_DELTA = "delta"
DatasetVersion = tuple[DatasetName, int | None]
"""The name of a table, and a version of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The rows, bytes and files that a commit wrote; None if the operation does not count them."""

    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One dataset that a task reads or writes.

    - `file_format`: `delta` for a Delta table, otherwise the format of the source
    - `lifecycle`: OpenLineage's lifecycle change, `CREATE` or `OVERWRITE`; None for other commits
    - `audits`: the results of the audits of this version
    """

    name: DatasetName
    address: str
    file_format: str = _DELTA
    version: int | None = None
    statistics: Statistics | None = None
    lifecycle: str | None = None
    audits: tuple[AuditResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """The inputs and outputs of a task."""

    inputs: tuple[Edge, ...] = ()
    outputs: tuple[Edge, ...] = ()


# The metrics with the written rows, bytes and files, by kind of request. The metrics with rows are added up.
_METRICS: Mapping[str, tuple[Sequence[str], str, str]] = {
    "write": (("numOutputRows",), "numOutputBytes", "numFiles"),
    "copy": (("numOutputRows",), "numOutputBytes", "numFiles"),
    "merge": (("numOutputRows",), "numTargetBytesAdded", "numTargetFilesAdded"),
    "scd": (("numOutputRows",), "numTargetBytesAdded", "numTargetFilesAdded"),
    "update": (("numUpdatedRows", "numCopiedRows"), "numAddedBytes", "numAddedFiles"),
    "delete": (("numCopiedRows",), "numAddedBytes", "numAddedFiles"),
    "optimize": ((), "numAddedBytes", "numAddedFiles"),
    "restore": ((), "restoredFilesSize", "numRestoredFiles"),
    "convert": (("numConvertedRows",), "convertedFilesSize", "numConvertedFiles"),
}


def edges_of(request: Request, result: OperationResult | None = None) -> Edges:
    """Return the inputs and outputs of `request`, with versions and statistics from `result` if there is one."""
    if isinstance(request, MaintainRequest):
        return _edges_of_maintenance(request, result)
    source_edges = tuple(dict.fromkeys((*_source_edges(request, result), *_audit_edges(request, result))))
    target_edge = _target_edge(request, result)
    if _is_read_only(request):
        return Edges(inputs=(target_edge, *source_edges))
    return Edges(inputs=source_edges, outputs=(target_edge, *_quarantine_edges(request, result)))


def _quarantine_edges(request: Request, result: OperationResult | None) -> Iterator[Edge]:
    """Yield the edge of the quarantine table. The edge has no version if the run put no row into this table."""
    quarantine_address: str | None = getattr(request, "quarantine", None)
    if quarantine_address is not None:
        quarantine = None if result is None else result.quarantine
        has_new_rows = quarantine is not None and quarantine.rows and result is not None and result.committed
        yield replace(
            table_edge(quarantine_address, version=None if quarantine is None else quarantine.version),
            statistics=Statistics(rows=quarantine.rows) if quarantine is not None and has_new_rows else None,
        )


def table_edge(address: str, *, version: int | None = None) -> Edge:
    """Return the edge of a Delta table, optionally at a version."""
    return Edge(name=dataset_name(address), address=address, version=version)


def _edges_of_maintenance(request: MaintainRequest, result: OperationResult | None) -> Edges:
    if request.dry_run:
        return Edges(inputs=tuple(map(table_edge, request.tables)))
    if result is None:
        return Edges(outputs=tuple(map(table_edge, request.tables)))
    changed_rows = [row for row in result.tables if "after" in row]
    return Edges(outputs=tuple(table_edge(row["table"], version=row["after"]["version"]) for row in changed_rows))


def _is_read_only(request: Request) -> bool:
    match request:
        case CheckpointRequest() | CheckRequest() | GenerateManifestRequest():
            return True
        case VacuumRequest(dry_run=dry_run):
            return dry_run
        case _:
            return False


def _target_edge(request: Request, result: OperationResult | None) -> Edge:
    name = dataset_name(request.table)
    if result is None:
        return Edge(name=name, address=request.table)
    return Edge(
        name=name,
        address=request.table,
        version=result.version,
        statistics=_statistics(request.kind, result),
        lifecycle=_lifecycle_change(request, result),
        audits=result.audits or (),
    )


def _statistics(kind: str, result: OperationResult) -> Statistics | None:
    if kind not in _METRICS or not result.committed:
        return None
    row_metrics, bytes_metric, files_metric = _METRICS[kind]
    row_counts = [result.metrics[name] for name in row_metrics if name in result.metrics]
    statistics = Statistics(
        rows=sum(row_counts) if row_counts else None,
        size_bytes=result.metrics.get(bytes_metric),
        files=result.metrics.get(files_metric),
    )
    return None if statistics == Statistics() else statistics


def _lifecycle_change(request: Request, result: OperationResult) -> str | None:
    """Return OpenLineage's lifecycle change (`CREATE` or `OVERWRITE`) of the commit, or None."""
    if not result.committed:
        return None
    if result.read_version is None:
        return "CREATE"
    match request:
        case WriteRequest(
            mode=WriteMode.OVERWRITE,
            replace_where=None,
            partition_overwrite=PartitionOverwrite.STATIC,
            data_change=True,
        ):
            return "OVERWRITE"
        case _:
            return None


def _source_edges(request: Request, result: OperationResult | None) -> tuple[Edge, ...]:
    if not isinstance(request, WriteRequest | MergeRequest | ScdRequest | CopyRequest):
        return ()
    read_versions = {} if result is None else result.source_versions
    edges = [_source_edge(source, read_versions.get(name)) for name, source in request.sources.items()]
    return tuple(dict.fromkeys(edge for edge in edges if edge is not None))


def _audit_edges(request: Request, result: OperationResult | None) -> Iterator[Edge]:
    """Yield the edges of the other tables that audits refer to, with the versions that they read."""
    versions = {} if result is None else {audit.name: audit.version for audit in result.audits or ()}
    audits: Sequence[Audit] = getattr(request, "audits", ())
    for audit in audits:
        if audit.in_table is not None:
            versioned_path = parse_versioned_path(audit.in_table)
            named_version = audit.version_as_of if audit.version_as_of is not None else versioned_path.version
            version = versions.get(audit.name)
            edge = table_edge(versioned_path.path, version=named_version if version is None else version)
            if edge.name != dataset_name(request.table):
                yield edge


def _source_edge(source: Source, read_version: int | None) -> Edge | None:
    """Return the edge of a source; None without a path that names a dataset."""
    if not source.path:
        return None
    if source.format.lower() == _DELTA:
        versioned_path = parse_versioned_path(source.path)
        versions = (read_version, source.version_as_of, versioned_path.version, source.changes_to_version)
        known_version = next((version for version in versions if version is not None), None)
        return table_edge(versioned_path.path, version=known_version)
    folder = folder_before_pattern(source.path)
    try:
        return Edge(name=dataset_name(folder), address=folder, file_format=source.format.lower())
    except InvalidTableAddressError:
        return None
