"""The source offsets of flows: how far a table has loaded its incremental sources.

A flow loads one source table into one target table. Its offset is a transaction in the target's log: the app id names
the flow and the id of the source table, and the version is the last source version that the target has loaded. The
commit that holds the rows also holds the offset, so the two cannot diverge. The functions here do no I/O. Protocol:
Transaction Identifiers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltalite.errors import InvalidRequestError
from deltalite.protocol.actions import NOTHING_LOADED, SOURCE_OFFSET_PREFIX, SetTransaction
from deltalite.requests import BY_ADDRESS, CommitRequest, Source
from deltalite.results import FlowRange, OperationResult, result_without_commit
from deltalite.storage.locations import canonical_address, parse_location

if TYPE_CHECKING:
    from deltalite.snapshot import Snapshot

FLOWS = "flows"
"""The operation parameter with the versions that a commit loaded from incremental sources, as JSON text."""
_PART_COUNT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowId:
    """The name of a flow, and the id of its source table.

    A recreated source has another table id, so the versions of two tables never mix.
    """

    name: str
    source_table_id: str

    @property
    def app_id(self) -> str:
        """The app id of the offset: `deltalite-flow/<name>/<source table id>`, with `%` and `/` percent-encoded."""
        return prefix_of_flow(self.name) + _escaped(self.source_table_id)

    @classmethod
    def parse(cls, app_id: str) -> FlowId | None:
        """Return the flow of an app id, None if the app id is not of a flow."""
        parts = app_id.split("/")
        if not app_id.startswith(SOURCE_OFFSET_PREFIX) or len(parts) != _PART_COUNT:
            return None
        flow_id = cls(name=_unescaped(parts[1]), source_table_id=_unescaped(parts[2]))
        return flow_id if flow_id.app_id == app_id else None  # other writers may write any text


def prefix_of_flow(name: str) -> str:
    """Return the prefix of the app ids of one flow. They differ in the id of the source table."""
    return f"{SOURCE_OFFSET_PREFIX}{_escaped(name)}/"


def flow_name(source: Source) -> str:
    """Return the name of the flow of an incremental source: the author's name, or the canonical address."""
    if source.incremental is None or source.incremental == BY_ADDRESS:
        return canonical_address(parse_location(source.path or ""))
    return source.incremental


def result_without_new_versions(
    request: CommitRequest, base: Snapshot, ranges: Mapping[str, FlowRange]
) -> OperationResult:
    """Return the result of a run that commits nothing, because no incremental source has a new version.

    Args:
        request: the request of an append, a merge or an SCD task.
        base: the snapshot of the table that the run has read.
        ranges: the empty ranges of versions, by the names of the sources.
    """
    offset_texts = ", ".join(
        f"'{flow_range.flow}' has loaded version {flow_range.to_version}" for flow_range in ranges.values()
    )
    return replace(
        result_without_commit(request.operation, base.store.root, base.version, run=request.identity, skipped=True),
        source_versions={name: flow_range.to_version for name, flow_range in ranges.items()},
        flows=dict(ranges),
        skip_reason=f"The incremental sources have no new version: the flow {offset_texts}.",
    )


def flow_offsets(transactions: Mapping[str, SetTransaction]) -> dict[FlowId, SetTransaction]:
    """Return the offsets of all flows among the transactions of a table."""
    offsets = ((FlowId.parse(app_id), txn) for app_id, txn in transactions.items())
    return {flow_id: txn for flow_id, txn in offsets if flow_id is not None}


def offset_transaction(flow_id: FlowId, version: int, *, now_ms: int) -> SetTransaction:
    """Return the transaction that sets the offset of a flow."""
    return SetTransaction(app_id=flow_id.app_id, version=version, last_updated_ms=now_ms)


def restored_offsets(
    current: Mapping[str, SetTransaction], restored: Mapping[str, SetTransaction], *, now_ms: int
) -> tuple[SetTransaction, ...]:
    """Return the transactions that a restore commits, so that each flow has the offset of the restored version.

    `current` and `restored` are the transactions of the newest version and of the restored version. A flow without an
    offset in the restored version had loaded nothing.
    """
    current_offsets, offsets = flow_offsets(current), flow_offsets(restored)
    versions = {flow: offsets[flow].version if flow in offsets else NOTHING_LOADED for flow in current_offsets}
    return tuple(
        offset_transaction(flow, version, now_ms=now_ms)
        for flow, version in versions.items()
        if version != current_offsets[flow].version
    )


def reset_offsets(
    transactions: Mapping[str, SetTransaction], resets: Mapping[str, int | None], *, table: str, now_ms: int
) -> tuple[SetTransaction, ...]:
    """Return the transactions that set each flow in `resets` to its version. None means that nothing is loaded.

    If a flow has offsets of several source tables, because its source was recreated, a version applies to the table
    that the flow loaded last. The flow then has loaded nothing of the other tables. Offsets that do not change are left
    out.

    Raises:
        InvalidRequestError: the table has no offset of such a flow, or it is unknown which table the flow loaded last.
    """
    offsets = flow_offsets(transactions)
    changed_offsets: list[SetTransaction] = []
    for name, version in resets.items():
        offsets_of_flow = {flow: txn for flow, txn in offsets.items() if flow.name == name}
        if not offsets_of_flow:
            known_names = ", ".join(sorted({repr(flow.name) for flow in offsets})) or "none"
            raise InvalidRequestError(
                f"reset_flows names the flow '{name}', but {table} has no offset of it. Its flows: {known_names}.",
                remedy="Correct the name; `deltalite flows` shows the names. For a new flow, set starting_version in "
                "the source.",
            )
        newest_ms = max(txn.last_updated_ms or 0 for txn in offsets_of_flow.values())
        newest, *equally_new = (
            flow for flow, txn in offsets_of_flow.items() if (txn.last_updated_ms or 0) == newest_ms
        )
        if equally_new and version is not None:
            raise InvalidRequestError(
                f"reset_flows sets the flow '{name}' of {table} to {version}, but the flow has offsets of several "
                "source tables with the same time.",
                remedy="Reset the flow to None, and set starting_version in the source.",
            )
        for flow, txn in offsets_of_flow.items():
            new_version = version if version is not None and flow == newest else NOTHING_LOADED
            if txn.version != new_version:
                changed_offsets.append(offset_transaction(flow, new_version, now_ms=now_ms))
    return tuple(changed_offsets)


def flows_parameter(ranges: Mapping[str, FlowRange]) -> str:
    """Return the value of the operation parameter `FLOWS`: the loaded versions, by the names of the views."""
    return json.dumps({view: range_as_json(flow_range) for view, flow_range in ranges.items()})


def range_as_json(flow_range: FlowRange) -> dict[str, Any]:
    """Return the loaded versions of one source as JSON values."""
    return {
        "flow": flow_range.flow,
        "sourceTableId": flow_range.source_table_id,
        "afterVersion": flow_range.after_version,
        "toVersion": flow_range.to_version,
    }


def flow_ranges_of(parameters: Any) -> dict[str, FlowRange]:
    """Return the versions that a commit loaded from incremental sources, from the operation parameters of its commit.

    The result is empty if the parameters have no valid value for `FLOWS`.
    """
    text = parameters.get(FLOWS) if isinstance(parameters, Mapping) else None
    try:
        return dict(_parsed_ranges(json.loads(text))) if isinstance(text, str) else {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _parsed_ranges(values: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, FlowRange]]:
    for view, value in values.items():
        after_version, to_version = value["afterVersion"], value["toVersion"]
        if not all(type(version) is int for version in (after_version or 0, to_version)):
            raise ValueError(view)
        yield (
            view,
            FlowRange(
                flow=str(value["flow"]),
                source_table_id=str(value["sourceTableId"]),
                after_version=after_version,
                to_version=to_version,
            ),
        )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _unescaped(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
