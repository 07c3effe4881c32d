"""The operator that packs small files, or orders rows by columns: `DeltaOptimizeOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, OptimizeRequest


class DeltaOptimizeOperator(DeltaCommitOperator):
    """Pack the small files of a Delta table, or order its rows along a Z-order curve with ``z_order_by``.

    - Without ``z_order_by``, the task packs small files of a partition into files of about ``target_file_size``, oldest
      first. It also rewrites files with many soft-deleted rows.
    - With ``z_order_by``, the task orders all files of a partition along a Z-order curve of these columns. Queries that
      filter by one of them then skip files and row groups. The files have a tag that names the columns.
    - In a clustered table, the task orders the rows along a Hilbert curve of the clustering columns. It rewrites the
      files that are not clustered yet, and joins them to small cubes (files that were ordered together). This task and
      delta-spark can continue each other's clustering. After a change of the clustering columns, use ``full=True``. It
      rewrites all files except full cubes of the current columns (at least half of ``max_commit_bytes``).
    - A second run does nothing until new files arrive. It does not rewrite files that were packed to the same size, or
      ordered by the same columns. Full Z-order cubes (at least half of ``max_commit_bytes``) stay, except
      files with many soft-deleted rows.

    The task changes no row, so readers, streams and change feeds are not affected. It does not conflict with appends,
    merges and deletes. If another writer changes a file, the job replans, and finally leaves the file to a later run
    (``numFilesLeft``). Replaced files stay for time travel until a vacuum. A large table is rewritten in several
    commits. If the job is killed between two commits, a retry continues.

    The task commits the run identity last, even if there was nothing to do. A retry therefore finds the last commit
    of an earlier attempt, returns it, and does nothing. The task returns ``{table, operation, version, read_version,
    committed, skipped, app_id, txn_version, timestamp, metrics}``. The event of each outlet ``Asset`` contains the same
    values. After several commits, ``metrics`` has the values of the last commit, and sums over all commits of this
    attempt (``totalNumAddedFiles``, ...). You can also give every parameter of ``SparkSubmitOperator`` except
    ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param where: Spark SQL on partition columns. The task reads only the partitions for which it is true. (templated)
    :param z_order_by: Columns that queries filter by, the most selective first; members of structs as ``a.b``.
        Partition columns and columns without statistics are rejected. (templated)
    :param target_file_size: The size of a file in bytes. The default is ``delta.targetFileSize`` of the table, or else
        256 MiB. (templated)
    :param min_file_size: Files of at least this many bytes are not packed. The default is three quarters of the target.
        (templated)
    :param max_deleted_rows_ratio: A file is rewritten if the share of its soft-deleted rows exceeds this ratio. 0
        rewrites every file with a soft-deleted row. (templated)
    :param max_commit_bytes: The approximate maximum of bytes that one commit rewrites. (templated)
    :param full: In a clustered table, also order files that are clustered by other columns, and join small cubes.
        If all files are in order already, the task does nothing. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans files that another writer has changed. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) optimizes
        again, from the newest version; ``skip`` keeps the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[OptimizeRequest]] = OptimizeRequest
    job: ClassVar[str] = "optimize"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
        "where",
        "z_order_by",
        "target_file_size",
        "min_file_size",
        "max_deleted_rows_ratio",
        "max_commit_bytes",
        "full",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"where": "sql"}
    sql_texts: ClassVar[frozenset[str]] = DeltaCommitOperator.sql_texts | {"where"}

    def __init__(
        self,
        *,
        table: str,
        where: str | None = None,
        z_order_by: Sequence[str] | str = (),
        target_file_size: int | str | None = None,
        min_file_size: int | str | None = None,
        max_deleted_rows_ratio: float | str = 0.05,
        max_commit_bytes: int | str = 32 * 1024**3,
        full: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.where = where
        self.z_order_by = z_order_by
        self.target_file_size = target_file_size
        self.min_file_size = min_file_size
        self.max_deleted_rows_ratio = max_deleted_rows_ratio
        self.max_commit_bytes = max_commit_bytes
        self.full = full

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task optimizes again, because the table may have new files."""
        return OnRerun.WRITE
