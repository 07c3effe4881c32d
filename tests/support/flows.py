"""Functions for tests of incremental sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.flows import flow_offsets
from tests.support.merging import merge_into
from tests.support.tables import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult


def source_of(path: Path | str, flow: str | bool = "flow", **options: Any) -> Mapping[str, Source]:
    """The sources of a request with one incremental source."""
    return {"source": Source(format="delta", path=str(path), incremental=flow, **options)}  # type: ignore[arg-type]


def append_new(
    spark: SparkSession,
    table: Path | str,
    source: Path | str,
    *,
    flow: str | bool = "flow",
    options: Mapping[str, Any] | None = None,
    **write_options: Any,
) -> OperationResult:
    """Append the new rows of `source`; `options` are those of the source."""
    return write_rows(spark, table, sources=source_of(source, flow, **(options or {})), **write_options)


def offsets(table: Path | str) -> dict[str, int]:
    """The offsets of a table's flows, by name."""
    transactions = Snapshot.load(LocalLogStore(str(table))).transactions
    return {flow.name: txn.version for flow, txn in flow_offsets(transactions).items()}


def version_range(result: OperationResult, view: str = "source") -> tuple[int | None, int]:
    """The versions that a run has loaded from a source: the version before the first one, and the last one."""
    loaded_range = result.flows[view]
    return loaded_range.after_version, loaded_range.to_version


def transactions_in(table: Path | str, version: int) -> dict[str, int]:
    """The transactions in one commit, by app id."""
    lines = (Path(table) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    txns = [action["txn"] for action in map(json.loads, lines) if "txn" in action]
    return {txn["appId"]: txn["version"] for txn in txns}


_LAST_CHANGES = """
    SELECT last.* FROM (
        SELECT max_by(struct(*), struct(_commit_version, _change_type <> 'delete')) AS last
        FROM source WHERE _change_type <> 'update_preimage' GROUP BY id
    )
"""


def merge_changes(
    spark: SparkSession,
    table: Path | str,
    source: Path | str,
    *,
    flow: str | bool = "flow",
    options: Mapping[str, Any] | None = None,
    **merge_options: Any,
) -> OperationResult:
    """Merge the last change of each `id` of the source, so that both tables have the same rows (`id`, `name`)."""
    return merge_into(
        spark,
        table,
        _LAST_CHANGES,
        "target.id = source.id",
        matched=[{"delete": True, "condition": "source._change_type = 'delete'"}, {"update": {"name": "source.name"}}],
        inserts=[
            {"insert": {"id": "source.id", "name": "source.name"}, "condition": "source._change_type <> 'delete'"}
        ],
        sources=source_of(source, flow, read="changes", **(options or {})),
        create_if_missing=True,
        **merge_options,
    )


_SIGNED = "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN x ELSE -x END"


def merge_balances(
    spark: SparkSession,
    table: Path | str,
    source: Path | str,
    *,
    flow: str | bool = "flow",
    options: Mapping[str, Any] | None = None,
    **merge_options: Any,
) -> OperationResult:
    """Add the changes of each `id` of the source to its balance (`flow`, `id`, `x`).

    With `read="changes"` (the default), the balance is the value `x` of the source, or 0 for a deleted row. A change
    that is applied twice makes the balance wrong.
    """
    source_options = {"read": "changes", **(options or {})}
    change = _SIGNED if source_options["read"] == "changes" else "x"
    return merge_into(
        spark,
        table,
        f"SELECT '{flow}' AS flow, id, sum({change}) AS x FROM source GROUP BY id",
        "target.id = source.id AND target.flow = source.flow",
        matched=[{"update": {"x": "target.x + source.x"}}],
        inserts=[{"insert": "*"}],
        sources=source_of(source, flow, **source_options),
        create_if_missing=True,
        **merge_options,
    )
