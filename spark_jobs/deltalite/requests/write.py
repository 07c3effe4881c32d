"""The request of a write task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from deltalite.requests.audits import Audit, audit_list_faults, audits_of
from deltalite.requests.base import (
    CommitRequest,
    Fault,
    OnRerun,
    OutOfOrder,
    convert_to_enum,
    faults_of_rerun_replace,
    repeated_name,
)
from deltalite.requests.deduplicate import Deduplicate, deduplicate_of
from deltalite.requests.incremental import target_faults
from deltalite.requests.quarantine import write_quarantine_faults
from deltalite.requests.source import Source, query_faults, sources_of


class WriteMode(StrEnum):
    """The effect of a write if the table exists."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"


class PartitionOverwrite(StrEnum):
    """The rows that `overwrite` replaces: all (`static`), or those of the partitions that receive rows (`dynamic`)."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest(CommitRequest):
    """A request to write the rows of `sources`, or of the `query` over them, to `table`.

    Parameters that name columns use the column names of the written rows.
    See `DeltaWriteOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "write"
    incidental_fields: ClassVar[frozenset[str]] = CommitRequest.incidental_fields | {
        "max_records_per_file",
        "optimize_write",
        "properties",
    }

    sources: Mapping[str, Source]
    query: str | None = None
    query_params: Mapping[str, object] = field(default_factory=dict)
    deduplicate: Deduplicate | None = None
    mode: WriteMode = WriteMode.APPEND
    partition_by: tuple[str, ...] | None = None
    replace_where: str | None = None
    partition_overwrite: PartitionOverwrite = PartitionOverwrite.STATIC
    merge_schema: bool = False
    overwrite_schema: bool = False
    confirm_all_rows: bool = False
    max_records_per_file: int | None = None
    optimize_write: bool = False
    data_change: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    out_of_order: OutOfOrder | None = None
    audits: tuple[Audit, ...] = ()
    quarantine: str | None = None

    def __post_init__(self) -> None:
        convert_to_enum(self, "mode", WriteMode)
        convert_to_enum(self, "partition_overwrite", PartitionOverwrite)
        if self.out_of_order is not None:
            convert_to_enum(self, "out_of_order", OutOfOrder)
        CommitRequest.__post_init__(self)

    @property
    def replaces_earlier_rows(self) -> bool:
        """Whether a cleared run of the write removes the rows that it has committed before."""
        replaces = self.identity is not None and self.identity.on_rerun is OnRerun.REPLACE
        return replaces or self.mode is WriteMode.OVERWRITE

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        yield from query_faults(self.sources, self.query, self.query_params)
        yield from _combination_faults(self)
        yield from audit_list_faults(self.audits)
        yield from write_quarantine_faults(self)
        if any(source.incremental is not None for source in self.sources.values()):
            yield from target_faults(self.sources, self.properties)
            if self.mode in (WriteMode.OVERWRITE, WriteMode.IGNORE):
                problem = f"An incremental source needs mode 'append' or 'error', and the mode is '{self.mode}'."
                yield problem, "Set mode='append'."
            remedy = "Use on_rerun='skip', or 'write' to load what is new since then."
            yield from faults_of_rerun_replace(self.identity, "a source is incremental", remedy)

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(WriteRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["sources"] = sources_of(body["sources"])
        body["deduplicate"] = deduplicate_of(body.get("deduplicate"))
        body["audits"] = audits_of(body.get("audits", ()))
        if body.get("partition_by") is not None:
            body["partition_by"] = tuple(body["partition_by"])
        return body


def _combination_faults(request: WriteRequest) -> list[Fault]:
    """Return the faults of single parameters and of combinations of parameters, each with its remedy."""
    overwrites = request.mode is WriteMode.OVERWRITE
    is_dynamic = request.partition_overwrite is PartitionOverwrite.DYNAMIC
    faults: list[Fault] = []

    def add_fault_if(condition: bool, problem: str, remedy: str) -> None:  # noqa: FBT001  reads as "add fault if"
        if condition:
            faults.append((problem, remedy))

    add_fault_if(
        request.replace_where is not None and not overwrites,
        f"replace_where needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or leave replace_where out.",
    )
    add_fault_if(
        request.replace_where is not None and not request.replace_where.strip(),
        "replace_where is empty.",
        "Give a predicate, or leave it out to overwrite the whole table.",
    )
    add_fault_if(
        request.replace_where is not None and is_dynamic,
        "replace_where and partition_overwrite='dynamic' both select the rows to replace.",
        "Keep one of them.",
    )
    add_fault_if(
        is_dynamic and not overwrites,
        f"partition_overwrite='dynamic' needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or leave partition_overwrite out.",
    )
    add_fault_if(
        request.overwrite_schema and not overwrites,
        f"overwrite_schema needs mode 'overwrite', and the mode is '{request.mode}'.",
        "Set mode='overwrite', or use merge_schema to add columns.",
    )
    add_fault_if(
        request.overwrite_schema and (is_dynamic or request.replace_where is not None),
        "overwrite_schema replaces the schema of the whole table, but the request replaces only a part of the rows.",
        "Leave out overwrite_schema, or overwrite the whole table.",
    )
    add_fault_if(
        request.max_records_per_file is not None and request.max_records_per_file < 1,
        f"max_records_per_file is {request.max_records_per_file}, which is not positive.",
        "Give a positive number, or leave it out.",
    )
    add_fault_if(
        not request.data_change and not overwrites,
        "data_change=False declares that the write only rearranges rows, which needs mode 'overwrite'.",
        "Set mode='overwrite', or leave data_change out.",
    )
    repeated_column = repeated_name(request.partition_by or ())
    add_fault_if(
        repeated_column is not None, f"partition_by names '{repeated_column}' twice.", "Name each column once."
    )
    if request.mode is not WriteMode.APPEND:
        faults += faults_of_rerun_replace(
            request.identity,
            f"the mode is '{request.mode}'",
            "Use on_rerun='write': an overwrite replaces the rows of the earlier run.",
        )
    return faults
