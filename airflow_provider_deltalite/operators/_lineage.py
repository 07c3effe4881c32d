"""The lineage that operators report to OpenLineage, which calls three methods with fixed names.

Before the task, lineage comes from the rendered request. After the task, it also comes from the result. OpenLineage's
listener calls the methods in another process or thread, and logs their errors, so lineage never fails a task. Without
OpenLineage, nothing calls them. `SparkSubmitOperator` tells the Spark application its parent job
(`openlineage_inject_parent_job_info`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Asset

from airflow_provider_deltalite.hooks.delta import DeltaHook

if TYPE_CHECKING:
    from airflow_provider_deltalite.lineage.edges import DatasetVersion, Edges
    from deltalite.requests import Request
    from deltalite.results import OperationResult
    from deltalite.watch import Column


class LineageOfRequest(ABC):
    """The lineage of an operator that makes a request and keeps its result."""

    inlets: list[Any]
    outlets: list[Any]
    storage_conn_id: str | None
    log: Any

    _result: OperationResult | None = None  # the result of this object's last run

    @abstractmethod
    def _request(self) -> Request:
        """Return the request of the operator's parameters."""

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the tables that the task will read and write."""
        return self._lineage(None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  OpenLineage passes it
        """Return the tables that the task has read and written; no tables if the task has no result."""
        if self._result is None:
            from airflow.providers.openlineage.extractors import OperatorLineage

            return OperatorLineage()
        return self._lineage(self._result)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:  # noqa: ARG002  OpenLineage passes it
        """Return the tables of the request. A failed task may have committed, but its result is unknown."""
        return self._lineage(None)

    def _lineage(self, result: OperationResult | None) -> Any:
        from airflow_provider_deltalite.lineage.edges import edges_of
        from airflow_provider_deltalite.lineage.facets import operator_lineage

        request = self._request()
        edges = edges_of(request, result)
        lineage = operator_lineage(
            edges,
            result=result,
            query=getattr(request, "query", None),
            schemas=self._schemas(request, result),
        )
        lineage.inputs += _declared_datasets(self.inlets, edges)
        lineage.outputs += _declared_datasets(self.outlets, edges)
        return lineage

    def _schemas(self, request: Request, result: OperationResult | None) -> dict[DatasetVersion, Sequence[Column]]:
        """Return the columns of the table after the task.

        The result is empty if the result of the task names no version, or if this worker cannot read the table's log.
        """
        if result is None or result.version is None:
            return {}
        from airflow_provider_deltalite.lineage.naming import dataset_name
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        try:
            store = DeltaHook(request.table, self.storage_conn_id).get_conn()
            return {(dataset_name(request.table), result.version): watch.columns_at(store, result.version)}
        except Exception as error:  # noqa: BLE001  without the schema, the rest of the lineage is still right
            self.log.info("Could not read the schema of %s for its lineage: %s", request.table, error)
            return {}


def _declared_datasets(assets: Iterable[Any], edges: Edges) -> list[Any]:
    """Return the datasets of the assets that the author declares and the request does not name."""
    from airflow_provider_deltalite.lineage.assets import asset_dataset

    names = {edge.name for edge in (*edges.inputs, *edges.outputs)}
    datasets = (asset_dataset(asset, names) for asset in assets if isinstance(asset, Asset))
    return [dataset for dataset in datasets if dataset is not None]
