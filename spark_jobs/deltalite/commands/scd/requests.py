"""The requests that an SCD request stands for: a merge into the table, and a write that creates it. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltalite.commands.flows.ranges import loaded_versions
from deltalite.errors import InvalidRequestError, SourceGapError
from deltalite.protocol.actions import SetTransaction
from deltalite.protocol.schema import DataType, PrimitiveType
from deltalite.requests import (
    MergeClause,
    MergeRequest,
    OnSameSequence,
    OutOfOrder,
    ScdRequest,
    WriteMode,
    WriteRequest,
)
from deltalite.requests.scd import NEWEST_ROWS
from deltalite.requests.source import fields_with_sources
from deltalite.results import FlowRange
from deltalite.spark.columns.names import SOURCE, TARGET, quoted

_VERSION_PATTERN = re.compile(r"\b_commit_version\b", re.IGNORECASE)
_NON_NUMERIC_TYPES = ("string", "date", "timestamp", "timestamp_ntz")
_PROPERTY = "deltalite.scd"
"""The table property with the type and the keys of the history. Runs with another type or other keys are refused."""


def check_same_history(request: ScdRequest, configuration: Mapping[str, str]) -> None:
    """Refuse a request with another type or other keys than the run that created the table.

    A table that no SCD run created lacks the property `deltalite.scd`, and is not checked.

    Raises:
        InvalidRequestError: the type or the keys differ.
    """
    stored = configuration.get(_PROPERTY)
    if stored is not None and stored != _history_text(request):
        raise InvalidRequestError(
            f"{request.table} was created with other keys or another scd_type: its property {_PROPERTY} is {stored}, "
            f"and the request needs {_history_text(request)}.",
            remedy="Use the same keys and the same scd_type in each run, or choose a new address.",
        )


def check_versions_continue(
    request: ScdRequest,
    transactions: Mapping[str, SetTransaction],
    ranges: Iterable[FlowRange],
    sequence_type: DataType,
) -> None:
    """If the sequence comes from versions, refuse a recreated source that has not passed the loaded version.

    Its rows would come before the rows of the table. `transactions` are those of the table. `sequence_type` is the type
    of `sequence_by`.

    Raises:
        SourceGapError: the source was recreated, or an older copy replaced it.
    """
    if not _may_order_by_versions(request, sequence_type):
        return
    for flow_range in ranges:
        offsets = loaded_versions(flow_range.flow, transactions)
        if flow_range.after_version is None and offsets and flow_range.to_version <= max(offsets.values()):
            raise SourceGapError(
                f"The flow '{flow_range.flow}' has loaded its source up to version {max(offsets.values())}. The source "
                f"was recreated or replaced, and its newest version is {flow_range.to_version}. If the sequence "
                f"({request.sequence_by}) comes from versions, its rows would come before those of {request.table}.",
                remedy="Write the history of the recreated source to another table.",
            )


def _may_order_by_versions(request: ScdRequest, sequence_type: DataType) -> bool:
    """Whether the sequence may come from versions of the source: directly, or as a number from the query."""
    if _VERSION_PATTERN.search(request.sequence_by):
        return True
    is_time_or_text = isinstance(sequence_type, PrimitiveType) and sequence_type.name in _NON_NUMERIC_TYPES
    return not is_time_or_text and request.query is not None and bool(_VERSION_PATTERN.search(request.query))


def _history_text(request: ScdRequest) -> str:
    return json.dumps({"type": request.scd_type, "keys": sorted(name.lower() for name in request.keys)})


def with_order_policy(request: ScdRequest) -> ScdRequest:
    """Return the request with its policy on the run order.

    By default, runs may have any order, unless rows replace earlier rows of the same key and sequence.
    """
    if request.out_of_order is not None or request.on_same_sequence is OnSameSequence.REPLACE:
        return request
    return replace(request, out_of_order=OutOfOrder.ALLOW)


def key_condition(request: ScdRequest) -> str:
    """Return the SQL condition that a row of the table has the key of a source row."""
    return " AND ".join(_equality(name) for name in request.keys)


def merge_request_of(request: ScdRequest) -> MergeRequest:
    """Return the merge of the changes into the table.

    The rows of the changes have the columns of the table. A null in the column `current` removes a row.
    """
    is_removed = f"{SOURCE}.{quoted(request.current)} IS NULL"
    names = request.keys if request.scd_type == NEWEST_ROWS else (*request.keys, request.valid_from)
    return MergeRequest(
        **fields_with_sources(request),
        out_of_order=request.out_of_order,
        on=" AND ".join(map(_equality, names)),
        when_matched=(MergeClause(delete=True, condition=is_removed), MergeClause(update="*")),
        when_not_matched=(MergeClause(insert="*"),),
        merge_schema=request.merge_schema,
    )


def first_write_request(request: ScdRequest) -> WriteRequest:
    """Return the write that creates the table. It has no `deduplicate`: `prepare_rows` deduplicates the good rows."""
    return WriteRequest(
        **fields_with_sources(request),
        mode=WriteMode.ERROR,
        partition_by=request.partition_by,
        properties={**request.properties, _PROPERTY: _history_text(request)},
        audits=request.audits,
        quarantine=request.quarantine,
    )


def operation_parameters(request: ScdRequest) -> dict[str, str]:
    """Return the parameters that the table's history shows in addition to those of a merge."""
    parameters = {
        "scdType": str(request.scd_type),
        "keys": json.dumps(request.keys),
        "sequenceBy": request.sequence_by,
    }
    return parameters if request.delete_when is None else {**parameters, "deleteWhen": request.delete_when}


def _equality(name: str) -> str:
    return f"{TARGET}.{quoted(name)} = {SOURCE}.{quoted(name)}"
