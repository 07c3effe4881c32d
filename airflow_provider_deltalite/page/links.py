"""Addresses of the page and of Airflow's UI. Every part is percent-encoded, because other writers choose the names.

The writer of a commit can claim any run, so a page links only to runs that exist in this Airflow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from deltalite.inspection.commit_entries import CommitEntry
from deltalite.log.writers import TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The addresses for one request.

    - `app`: the path of the page's app, without a slash at the end.
    - `airflow`: the path of Airflow's UI, without a slash at the end.
    - `runs`: the pairs of DAG id and run id that exist in this Airflow.
    """

    app: str
    airflow: str
    runs: Collection[tuple[str, str]] = frozenset()

    def static(self, name: str) -> str:
        """Return the address of a static file."""
        return f"{self.app}/static/{name}"

    def lake(self, **query: str) -> str:
        """Return the address of the list of tables."""
        values = {name: value for name, value in query.items() if value}
        return f"{self.app}/lake" + (f"?{urlencode(values)}" if values else "")

    def table(self, key: str, before: int | None = None) -> str:
        """Return the address of a table's page; with `before`, the commits before this version."""
        return f"{self.app}/tables/{quote(key, safe='')}" + ("" if before is None else f"?before={before}")

    def maintenance(self, key: str) -> str:
        """Return the address that starts the maintenance of a table."""
        return f"{self.table(key)}/maintenance"

    def started_run(self, key: str, run_id: str) -> str:
        """Return the address of a table's page that names the run of the maintenance DAG."""
        return f"{self.table(key)}?{urlencode({'started': run_id})}#advice"

    def measures(self, key: str) -> str:
        """Return the address of the parts of a table's page that need its measures."""
        return f"{self.table(key)}/measures"

    def columns(self, key: str) -> str:
        """Return the address of the schema of a table's page, with the statistics of the columns."""
        return f"{self.table(key)}/columns"

    def versions(self, key: str) -> str:
        """Return the address to which a page sends the form with the version that the user chose."""
        return f"{self.table(key)}/versions"

    def version(self, key: str, version: int, *, rows: str = "", where: Iterable[str] = ()) -> str:
        """Return the address of a version's page; with `rows`, of the rows for which the conditions are true.

        `rows` is a `preview_view.RowChoice`.
        """
        query = urlencode([("rows", rows), *(("where", condition) for condition in where)]) if rows else ""
        return f"{self.table(key)}/versions/{version}" + (f"?{query}" if query else "")

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
        """Return the address of the page of a task instance."""
        return f"{self.app}/task/{_part(dag_id)}/{_part(task_id)}/{map_index}/{_part(run_id)}"

    def airflow_dag(self, dag_id: str) -> str:
        """Return the address of a DAG in Airflow's UI."""
        return f"{self.airflow}/dags/{_part(dag_id)}"

    def airflow_run(self, dag_id: str, run_id: str) -> str:
        """Return the address of a DAG run in Airflow's UI."""
        return f"{self.airflow_dag(dag_id)}/runs/{_part(run_id)}"

    def airflow_task(self, dag_id: str, run_id: str, task_id: str, map_index: int, try_number: int | None) -> str:
        """Return the address of the log of a task attempt in Airflow's UI."""
        mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
        query = "" if try_number is None else f"?try_number={try_number}"
        return f"{self.airflow_run(dag_id, run_id)}/tasks/{_part(task_id)}{mapped}{query}"

    def of_writer(self, run: TaskRun | None) -> str | None:
        """Return the address of the log of the task attempt that made a commit; None for an unknown run."""
        if run is None or run.run_id is None or (run.dag_id, run.run_id) not in self.runs:
            return None
        index = -1 if run.map_index is None else run.map_index
        return self.airflow_task(run.dag_id, run.run_id, run.task_id, index, run.try_number)


def runs_of(entries: Iterable[CommitEntry | None]) -> set[tuple[str, str]]:
    """Return the pairs of DAG id and run id that commits name."""
    runs = (entry.run for entry in entries if entry is not None)
    return {(run.dag_id, run.run_id) for run in runs if run is not None and run.run_id is not None}


def _part(text: str) -> str:
    return quote(text, safe="", errors="backslashreplace")
