"""The button that starts the maintenance of a table, as values for the template, or why the page has no button."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.page.known_tables import KnownTable

if TYPE_CHECKING:
    from airflow_provider_deltalite.page.database import DagState


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceView:
    """The button.

    - `dag_id`: the DAG that the button starts.
    - `token`: the token of the form.
    - `problem`: why the DAG cannot start; the button is then missing.
    - `started_run`: the id of the run that the user has just started; empty without one.
    """

    dag_id: str
    token: str
    problem: str = ""
    started_run: str = ""


def problem_of_dag(state: DagState | None) -> str:
    """Return why the DAG cannot start; an empty text if it can."""
    if state is None:
        return "This Airflow has no such DAG. Add its file, or correct the setting [deltalite] ui_maintenance_dag."
    if state.has_import_errors:
        return "Airflow cannot import the file of the DAG. Correct the import error, then reload this page."
    if state.is_paused:
        return "The DAG is paused, so a run would wait. Unpause the DAG, then reload this page."
    return ""


def maintenance_conf(table: KnownTable) -> dict[str, Any]:
    """Return the configuration of the run: the address of the table, and its connection if there is one."""
    connection = {} if table.conn_id is None else {"storage_conn_id": table.conn_id}
    return {"table": table.address, **connection}
