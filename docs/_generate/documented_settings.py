"""The options of `airflow.cfg` that the provider has, and the keys of a task's result."""

from __future__ import annotations

from dataclasses import fields

from documenting import UndocumentedError, code, table

from airflow_provider_deltalite.get_provider_info import get_provider_info
from deltalite.results import OperationResult

_RESULT_TEXTS = {
    "table": "The table's address.",
    "operation": "The operation's name in the table's history.",
    "version": "The version that this run's commit made, also where an earlier try made it. None where the log "
    "no longer holds that commit, and after a dry run.",
    "read_version": "The version that the operation was decided on.",
    "committed": "Whether this try made the commit.",
    "skipped": "Whether there was nothing to do because this run had done it before.",
    "app_id": "The identity of the task's run, as it stands in the commit's `txn` action.",
    "txn_version": "The transaction version of the commit: 0, and higher where the same identity has committed again, "
    "such as after a clear.",
    "timestamp": "The commit's own clock, in milliseconds UTC. For time travel use the version.",
    "metrics": "Counts under Spark's names, such as `numOutputRows`.",
    "source_versions": "The versions of the Delta tables that were read, by the names of their views; left out where "
    "there was none.",
    "partitions": "The partitions whose rows the commit changed, such as `day=2026-03-01/country=DE`; null if they are "
    "more than 100 or unknown, left out if there is none.",
    "out_of_order": "True if runs of later data intervals had changed rows that the operation may have touched; left "
    "out otherwise.",
}


def settings() -> str:
    """A table of all options."""
    rows = [
        [
            code(f"[{section}] {name}"),
            code(f"AIRFLOW__{section.upper()}__{name.upper()}"),
            "none" if option["default"] is None else code(str(option["default"])),
            option["description"],
        ]
        for section, described in get_provider_info()["config"].items()
        for name, option in described["options"].items()
    ]
    return table(["option", "environment", "default", "what it is"], rows)


def result_fields() -> str:
    """A table of the keys of a result, with their types."""
    known = {field.name: str(field.type) for field in fields(OperationResult)}
    if set(_RESULT_TEXTS) != set(known):
        raise UndocumentedError(f"A result has the keys {sorted(known)}; described are {sorted(_RESULT_TEXTS)}.")
    rows = [[code(name), code(kind.replace("Mapping[", "dict[")), _RESULT_TEXTS[name]] for name, kind in known.items()]
    return table(["key", "type", "what it says"], rows)
