"""Documentation of the provider's options in `airflow.cfg`, and of the keys of a task's result."""

from __future__ import annotations

from dataclasses import fields

from documenting import UndocumentedError, code, table

from airflow_provider_deltalite.get_provider_info import get_provider_info
from deltalite.results import OperationResult

_RESULT_TEXTS = {
    "table": "The table's address.",
    "operation": "The operation's name in the table's history.",
    "version": "The version that this run committed, also if an earlier task attempt made the commit. If the task "
    "commits nothing, the version that it read. None after a maintenance of many tables, and if the log no longer "
    "holds the commit.",
    "read_version": "The version that the operation is based on.",
    "committed": "Whether this task attempt made the commit.",
    "skipped": "Whether the task did nothing because its work was done before, such as by an earlier attempt.",
    "app_id": "The identity of the task's run, as in the `txn` action of the commit.",
    "txn_version": "The transaction version of the commit: 0 for the first commit of this identity, and higher for "
    "later ones, such as after a clear.",
    "timestamp": "The time of the commit by the writer's clock, in milliseconds UTC. Use the version for time travel.",
    "metrics": "Counts, such as `numOutputRows`, and times in milliseconds, such as `executionTimeMs`.",
    "source_versions": "The version of each Delta table that the task read, by the name of its view. The key is "
    "missing if the task read none.",
    "flows": "The versions that the commit loaded from incremental sources, by the name of the view: `flow`, "
    "`source_table_id`, `after_version` (exclusive; null for the complete source) and `to_version` (inclusive). The "
    "key is missing without an incremental source.",
    "audits": "The results of the audits. Each has `name`, `kind`, `on`, `level`, `passed`, `measured` and "
    "`threshold`. If they are known, it also has `rows` (the number of rows in the scope), `before` (the number of "
    "rows in the version before), `version` (of the other table), `error` (if the SQL fails for a row), and "
    "`accepted_by` and `accepted_at` (if a person has accepted the value). Null if the results do not fit into the "
    "job's result line and this worker does not find them in the table's log. The key is missing without audits.",
    "skip_reason": "Why the task made no commit, if its sources have nothing new. Otherwise the key is missing.",
    "partitions": "The partitions whose rows the commit changed, such as `day=2026-03-01/country=DE`. Null if there "
    "are more than 100, if they are unknown, or if their names do not fit into the job's result line. The key is "
    "missing if there is no such partition.",
    "out_of_order": "True if runs of later data intervals had changed rows that the operation may have touched. "
    "Otherwise the key is missing.",
    "quarantine": "The rows that the run put into the quarantine table: `table` (the address of this table), `version` "
    "(the version of this table with these rows; null if the run committed nothing there) and `rows` (their number). "
    "The key is missing without a quarantine.",
    "tables": "The rows of a maintenance of many tables. Otherwise the key is missing.",
    "phases": "The seconds that the job spent in each of its "
    "[phases](how-to/see-tables-in-airflow.md#see-where-the-time-went), such as `start`, `plan`, `write`, `commit` and "
    "`after_commit`. The key is missing if this task attempt ran no job, if the phases do not fit into the job's "
    "result line, or if the line did not reach the worker.",
}


def settings() -> str:
    """Return a table of all options."""
    rows = [
        [
            code(f"[{section_name}] {name}"),
            code(f"AIRFLOW__{section_name.upper()}__{name.upper()}"),
            "none" if option["default"] is None else code(str(option["default"])),
            option["description"],
        ]
        for section_name, section in get_provider_info()["config"].items()
        for name, option in section["options"].items()
    ]
    return table(["option", "environment", "default", "what it is"], rows)


def result_fields() -> str:
    """Return a table of the keys of a result, with their types.

    Raises:
        UndocumentedError: `_RESULT_TEXTS` and `OperationResult` have different keys.
    """
    types = {field.name: str(field.type) for field in fields(OperationResult)}
    if set(_RESULT_TEXTS) != set(types):
        raise UndocumentedError(
            f"A result has the keys {sorted(types)}, but _RESULT_TEXTS describes {sorted(_RESULT_TEXTS)}."
        )
    rows = [
        [code(name), code(type_text.replace("Mapping[", "dict[")), _RESULT_TEXTS[name]]
        for name, type_text in types.items()
    ]
    return table(["key", "type", "what it is"], rows)
