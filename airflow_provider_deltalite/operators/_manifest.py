"""The operator that writes symlink manifests: `DeltaGenerateManifestOperator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from deltalite.requests import GenerateManifestRequest, Request

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaGenerateManifestOperator(DeltaSubmitOperator):
    """Write the symlink manifests of a table's newest version, for engines that read Parquet files from a list.

    Presto, Trino, Athena, Redshift Spectrum and Hive read ``<table>/_symlink_format_manifest/`` through
    ``SymlinkTextInputFormat``. This folder has a file ``manifest`` for each partition, with the complete addresses of
    the partition's data files. The task does the same as ``GENERATE symlink_format_manifest`` of delta-spark.

    A table with ``delta.compatibility.symlinkFormatManifest.enabled`` gets manifests after each commit of this package.
    Use this task for all other tables, for commits of other engines, and to write the first manifests.

    - The task replaces each manifest as a whole. A query of several partitions may see them at different versions until
      the task has ended.
    - Vacuum does not read manifests. Run this task more often than the table's retention.
    - The task fails on tables with deletion vectors or column mapping, which readers of manifests do not support.
    - The task makes no commit, so it can run at any time. A cleared task writes the manifests again.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``. ``metrics`` has ``numManifests``, ``numFiles`` and ``numDeletedManifests``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[GenerateManifestRequest]] = GenerateManifestRequest
    job: ClassVar[str] = "generate_manifest"

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

    def record_state_before_job(self, store: LogStore, request: Request) -> None:  # noqa: ARG002  the base class has it
        """Keep the newest version."""
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        self.state_before_job = {"version": watch.latest_version(store)}

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """Return the result of a job that succeeded: manifests of the newest version before the job, or of a later one.

        Manifests do not name their version, so nothing proves the result of a failed job.
        """
        from deltalite.results import manifest_result

        return None if failed else manifest_result(store.root, self.state_before_job["version"], metrics={})
