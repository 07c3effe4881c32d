"""The operator that moves rows to files of a good size, or near to their like: `DeltaOptimizeOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, OptimizeRequest


class DeltaOptimizeOperator(DeltaCommitOperator):
    """Put the rows of a Delta table into files of a good size, or, with ``z_order_by``, near to rows like them.

    Without ``z_order_by`` small files of a partition are packed into files of about ``target_file_size``, oldest first,
    and files of which many rows are marked as deleted are written again without them, also alone. With it all files of
    a partition are ordered along a Z curve of these columns, so that queries that filter by any of them skip files and
    row groups; such files say so in their tags. A second run does nothing: what was packed to the same size, or ordered
    by the same columns, is left alone until other files join it. Full cubes (half of ``max_commit_bytes`` at least) of
    a Z order are left alone even then.

    No row changes, so readers, streams and change feeds see nothing of it, and appends, merges and deletes of others do
    not stand in its way: files that they change are left to them, planned again, and at last left to a later run
    (``numFilesLeft``). The old files stay for time travel until a vacuum. A large table is rewritten in several
    commits; a job that is killed between two goes on when it is tried again.

    The last commit carries the identity of the task's run, also where there was nothing to do, so a retry whose earlier
    try has ended returns that and does nothing. The task returns ``{table, operation, version, read_version, committed,
    skipped, app_id, txn_version, timestamp, metrics}``, and the event of each outlet ``Asset`` carries the same; where
    there were several commits, ``metrics`` has the sums of all that this try made (``totalNumAddedFiles``, ...) beside
    those of the last one. Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up the
    job itself.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param where: Spark SQL on partition columns: only the partitions for which it is true are looked at. (templated)
    :param z_order_by: Columns that queries filter by, the most telling first; members of structs as ``a.b``. Not
        partition columns, and not columns without statistics. (templated)
    :param target_file_size: Bytes of a file; ``delta.targetFileSize`` of the table where it is left out, else 256 MiB.
        (templated)
    :param min_file_size: Files of so many bytes are large enough and are not packed; three quarters of the target where
        it is left out. (templated)
    :param max_deleted_rows_ratio: A file of whose rows more than this share is marked as deleted is written again; 0
        purges all that has a deleted row. (templated)
    :param max_commit_bytes: A commit takes out files of about so many bytes at most. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans again what another writer has touched. (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) looks at the table again; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
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
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.where = where
        self.z_order_by = z_order_by
        self.target_file_size = target_file_size
        self.min_file_size = min_file_size
        self.max_deleted_rows_ratio = max_deleted_rows_ratio
        self.max_commit_bytes = max_commit_bytes

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  as the base class
        """A cleared task looks at the table again: more files may have come."""
        return OnRerun.WRITE
