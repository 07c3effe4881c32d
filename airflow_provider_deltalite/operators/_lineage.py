"""What operators tell OpenLineage, which looks for three methods of these names.

Asked before the task, lineage is what the rendered request says; afterwards what the result says too. Nothing of it
runs where OpenLineage is not set up, and nothing of it can fail a task: its listener calls these methods beside the
task, in a process or thread of its own, and logs what goes wrong. The parent of the Spark application itself is
handed over by `SparkSubmitOperator` (`openlineage_inject_parent_job_info`).
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
    """The lineage of an operator that makes a request, and keeps the result of it."""

    inlets: list[Any]
    outlets: list[Any]
    storage_conn_id: str | None
    log: Any

    _result: OperationResult | None = None  # of the last time that this object ran

    @abstractmethod
    def _request(self) -> Request:
        """The request that the operator's parameters ask for, templates rendered or not."""

    def get_openlineage_facets_on_start(self) -> Any:
        """What the task is about to read and write."""
        return self._lineage(None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  as OpenLineage calls it
        """What the task has read and written; nothing where it ended without running, as a skipped one does."""
        if self._result is None:
            from airflow.providers.openlineage.extractors import OperatorLineage

            return OperatorLineage()
        return self._lineage(self._result)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:  # noqa: ARG002  as above
        """What the task would have read and written: a task that failed has not committed."""
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
        lineage.inputs += _others(self.inlets, edges)
        lineage.outputs += _others(self.outlets, edges)
        return lineage

    def _schemas(self, request: Request, result: OperationResult | None) -> dict[DatasetVersion, Sequence[Column]]:
        """The columns of the table after the task, where this worker can read its log."""
        if result is None or result.version is None:
            return {}
        from airflow_provider_deltalite.lineage.naming import dataset_name
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        try:
            store = DeltaHook(request.table, self.storage_conn_id).get_conn()
            return {(dataset_name(request.table), result.version): watch.columns_at(store, result.version)}
        except Exception as error:  # noqa: BLE001  whatever keeps the schema from us, the rest is known
            self.log.info("The schema of %s is left out of its lineage: %s", request.table, error)
            return {}


def _others(assets: Iterable[Any], edges: Edges) -> list[Any]:
    """The assets that the author names beside what the task says itself, as datasets."""
    from airflow_provider_deltalite.lineage.assets import asset_dataset

    named = {edge.name for edge in (*edges.inputs, *edges.outputs)}
    made = (asset_dataset(asset, named) for asset in assets if isinstance(asset, Asset))
    return [dataset for dataset in made if dataset is not None]
