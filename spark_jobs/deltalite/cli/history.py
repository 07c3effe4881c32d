"""`deltalite history`: the commits, newest first.

The column `by` shows the task that made the commit: DAG, task, run and try number. For other writers it shows the user
and the engine.

JSON has one object per commit: the provenance that the writer recorded, with `version`, `timestamp` (the time that time
travel uses) and `run`. `run` contains `dagId`, `taskId`, `runId`, `mapIndex` (-1 if the task is not mapped) and
`tryNumber` of the task; `run` is null for a commit of another writer. A commit that loaded incremental sources has
`flows`: one object per source with `view`, `flow`, `sourceTableId`, `afterVersion` (exclusive; null for the complete
snapshot) and `toVersion` (inclusive). A commit whose rows were audited has `audits`: one object per audit with `name`,
`kind`, `on`, `level`, `passed`, `measured` and `threshold`, and `accepted_by` and `accepted_at` if a person has
accepted the measured value.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from deltalite.cli.command import Arguments, Command, add_limit, limit_of, open_table
from deltalite.cli.output import Column, Output
from deltalite.cli.values import json_text, time_cell
from deltalite.log.writers import task_run, writer_text
from deltalite.results import AuditResult
from deltalite.txn.audits import AUDITS, audit_results_of
from deltalite.txn.flows import FLOWS, flow_ranges_of, range_as_json

_DEFAULT_LIMIT = 20
_COLUMNS = (
    Column("version", is_number=True),
    Column("time"),
    Column("operation"),
    Column("parameters"),
    Column("metrics"),
    Column("by", folds=True),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_limit(parser, "commits", _DEFAULT_LIMIT)


def _run(args: Arguments, out: Output) -> int:
    entries = open_table(args).history(limit_of(args))
    if out.as_json:
        out.records({**entry, "run": _task_run_of(entry), **_flows_of(entry), **_audits_of(entry)} for entry in entries)
    else:
        out.table(_COLUMNS, map(_row, entries))
    return 0


def _row(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        entry["version"],
        time_cell(entry["timestamp"]),
        entry.get("operation") or "",
        _format_parameters(entry.get("operationParameters")),
        _format_values(entry.get("operationMetrics")),
        writer_text(entry),
    )


def _task_run_of(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    run = task_run(entry)
    return None if run is None else run.as_dict()


def _flows_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return `flows` as JSON values, or nothing if the commit loaded no incremental source."""
    ranges = flow_ranges_of(entry.get("operationParameters"))
    flows = [{"view": view, **range_as_json(flow_range)} for view, flow_range in ranges.items()]
    return {"flows": flows} if flows else {}


def _audits_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return `audits` as JSON values, or nothing if the commit has no results of audits."""
    audits = [audit.as_dict() for audit in audit_results_of(entry.get("operationParameters"))]
    return {"audits": audits} if audits else {}


def _format_parameters(values: Any) -> str:
    """Format the parameters. The versions of incremental sources come first and as a text, and audits last."""
    ranges, audits = flow_ranges_of(values).values(), audit_results_of(values)
    texts = [f"flow '{r.flow}' (source table {r.source_table_id}): {r}" for r in ranges]
    formatted_keys = {key for key, results in ((FLOWS, ranges), (AUDITS, audits)) if results}
    other_values = {k: value for k, value in values.items() if k not in formatted_keys} if formatted_keys else values
    return " ".join(filter(None, [*texts, _format_values(other_values), _format_audits(audits)]))


def _format_audits(audits: Sequence[AuditResult]) -> str:
    """Format results as `audits: 3 passed`, with the audits that did not pass in full."""
    if not audits:
        return ""
    warnings = [f"did not pass: {audit}" for audit in audits if not audit.passed]
    return f"audits: {'; '.join([f'{len(audits) - len(warnings)} passed', *warnings])}"


def _format_values(values: Any) -> str:
    """Format a mapping as `mode=Append numFiles=1`, without empty and null values."""
    if not isinstance(values, Mapping):
        return ""
    texts = ((key, value if isinstance(value, str) else json_text(value)) for key, value in values.items())
    return " ".join(f"{key}={value}" for key, value in texts if value not in ("", "null", "[]", "{}"))


COMMAND = Command(
    name="history",
    summary="the commits, newest first: time, operation and writer",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)
