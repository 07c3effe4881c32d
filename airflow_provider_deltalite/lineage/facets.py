"""Conversion of edges to OpenLineage datasets and facets.

The module loads OpenLineage's client, so import it only if lineage is requested. A Delta input has the version that was
read. An output has the version, the schema, the storage and the written rows, bytes and files. The run has the facet
`deltalite` with the main fields of the task's result, and the facet `test` with the results of its audits. The facet
`deltalite` distinguishes a skipped run from a commit, and names the commit's version and transaction in the table's
history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    dataset_version_dataset,
    datasource_dataset,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    sql_job,
    storage_dataset,
)

from airflow_provider_deltalite.lineage.audits import input_facets_of_audits, run_facets_of_audits
from deltalite.redaction import redacted

if TYPE_CHECKING:
    from airflow_provider_deltalite.lineage.edges import DatasetVersion, Edge, Edges, Statistics
    from deltalite.results import OperationResult
    from deltalite.watch import Column

RUN_FACET = "deltalite"
_DATA_FILE_FORMAT = "parquet"


@attrs.define(kw_only=True)
class DeltaliteRunFacet(RunFacet):
    """The result of a task: some fields of its XCom, with their names in camel case."""

    operation: str
    version: int | None = None
    readVersion: int | None = None  # noqa: N815  OpenLineage uses camel case
    committed: bool = False
    skipped: bool = False
    appId: str | None = None  # noqa: N815  as above
    txnVersion: int | None = None  # noqa: N815  as above
    timestamp: int | None = None
    metrics: dict[str, int] = attrs.field(factory=dict)

    _additional_skip_redact: ClassVar[list[str]] = ["operation", "appId"]


def operator_lineage(
    edges: Edges,
    *,
    result: OperationResult | None = None,
    query: str | None = None,
    schemas: Mapping[DatasetVersion, Sequence[Column]] | None = None,
) -> Any:
    """Return the `OperatorLineage` of a task. `schemas` contains the columns of some table versions."""
    columns_by_version = schemas or {}
    return OperatorLineage(
        inputs=[_input_dataset(edge, columns_by_version.get((edge.name, edge.version), ())) for edge in edges.inputs],
        outputs=[
            _output_dataset(edge, columns_by_version.get((edge.name, edge.version), ())) for edge in edges.outputs
        ],
        run_facets={} if result is None else _run_facets(result),
        job_facets=_job_facets(query),
    )


def plain_dataset(edge: Edge) -> Any:
    """Return a dataset that has only a name."""
    return Dataset(namespace=edge.name.namespace, name=edge.name.name)


def _run_facets(result: OperationResult) -> dict[str, RunFacet]:
    """Return the result and its audits as facets. A skipped run has run no audits, so it has only the result."""
    return {RUN_FACET: _run_facet(result), **run_facets_of_audits(() if result.skipped else result.audits or ())}


def _run_facet(result: OperationResult) -> DeltaliteRunFacet:
    return DeltaliteRunFacet(
        operation=result.operation,
        version=result.version,
        readVersion=result.read_version,
        committed=result.committed,
        skipped=result.skipped,
        appId=result.app_id,
        txnVersion=result.txn_version,
        timestamp=result.timestamp,
        metrics=dict(result.metrics),
    )


def _job_facets(query: str | None) -> dict[str, JobFacet]:
    return {} if query is None else {"sql": sql_job.SQLJobFacet(query=redacted(query), dialect="spark")}


def _input_dataset(edge: Edge, columns: Sequence[Column]) -> InputDataset:
    return InputDataset(
        namespace=edge.name.namespace,
        name=edge.name.name,
        facets=_dataset_facets(edge, columns),
        inputFacets=input_facets_of_audits(edge.audits),
    )


def _output_dataset(edge: Edge, columns: Sequence[Column]) -> OutputDataset:
    output_facets: dict[str, OutputDatasetFacet] = {}
    if edge.statistics is not None:
        output_facets["outputStatistics"] = _statistics_facet(edge.statistics)
    return OutputDataset(
        namespace=edge.name.namespace,
        name=edge.name.name,
        facets=_dataset_facets(edge, columns),
        outputFacets=output_facets,
    )


def _statistics_facet(statistics: Statistics) -> output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet:
    return output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=statistics.rows, size=statistics.size_bytes, fileCount=statistics.files
    )


def _dataset_facets(edge: Edge, columns: Sequence[Column]) -> dict[str, DatasetFacet]:
    is_table = edge.file_format == "delta"
    facets: dict[str, DatasetFacet] = {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(name=edge.name.namespace, uri=edge.name.namespace),
        "storage": storage_dataset.StorageDatasetFacet(
            storageLayer="delta" if is_table else edge.name.namespace.partition(":")[0],
            fileFormat=_DATA_FILE_FORMAT if is_table else edge.file_format,
        ),
    }
    if edge.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(edge.version))
    if columns:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=[_column_field(column) for column in columns])
    if edge.lifecycle is not None:
        change = lifecycle_state_change_dataset.LifecycleStateChange[edge.lifecycle]
        facets["lifecycleStateChange"] = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycleStateChange=change
        )
    return facets


def _column_field(column: Column) -> schema_dataset.SchemaDatasetFacetFields:
    return schema_dataset.SchemaDatasetFacetFields(
        name=column.name,
        type=column.type,
        description=column.comment,
        fields=[_column_field(member) for member in column.members],
    )
