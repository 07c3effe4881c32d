"""The operator that writes symlink manifests: `DeltaGenerateManifestOperator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from deltalite.requests import GenerateManifestRequest, Request

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaGenerateManifestOperator(DeltaSubmitOperator):
    """Write the symlink manifests of a table's newest version, for engines that read Parquet by lists of files.

    Presto, Trino, Athena, Redshift Spectrum and Hive read ``<table>/_symlink_format_manifest/`` through
    ``SymlinkTextInputFormat``: a file called ``manifest`` for each partition, which names the partition's data files by
    their whole addresses, as the table's address begins. This is delta-spark's ``GENERATE symlink_format_manifest``. A
    table with ``delta.compatibility.symlinkFormatManifest.enabled`` gets them after each commit of this package; this
    task is for all others, for what other engines have committed, and for the first time.

    Each manifest is replaced as a whole; a query that reads several partitions meanwhile may see them at different
    versions. The task ends when all are of the newest version. Vacuum does not know what manifests name: run this more
    often than the table's retention. Tables with deletion vectors or column mapping are refused, since readers of
    manifests know neither. Nothing is committed, so the task may run at any time, and a cleared one does it again.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``, where ``metrics`` has ``numManifests``, ``numFiles`` and ``numDeletedManifests``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        cannot keep two writers apart. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[GenerateManifestRequest]] = GenerateManifestRequest
    job: ClassVar[str] = "generate_manifest"

    _from_version: int  # the newest version when the task began

    def __init__(
        self,
        *,
        table: str,
        single_writer: bool = False,
        conn_id: str = "spark_default",
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table, conn_id=conn_id, storage_conn_id=storage_conn_id, single_writer=single_writer, **kwargs
        )

    def look(self, store: LogStore, request: Request) -> None:  # noqa: ARG002  as the base class
        """Remember the newest version."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        self._from_version = watch.latest_version(store)

    def landed(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """Manifests say of no version: those of a job that ended well are of the one that the task found, or newer."""
        from deltalite.results import manifest_result

        return None if failed else manifest_result(store.root, self._from_version, metrics={})
