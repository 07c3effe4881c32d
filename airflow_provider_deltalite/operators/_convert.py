"""The operator that makes a Delta table of a folder of Parquet files: `DeltaConvertOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import ConvertRequest, Request


class DeltaConvertOperator(DeltaCommitOperator):
    """Make a folder of Parquet files a Delta table, in place and in one commit.

    No file is moved, changed or read beyond its footer, which gives the schema and the statistics. Files that were
    written over time may have different columns; the table has all of them, and every column may be null. Files that
    contradict each other, columns that no Delta table can have, and folders that hold something else than Parquet files
    are refused by name, and the folder is left as it was. Nothing should write there meanwhile: the folder is listed
    again before the commit, and a file that came, went or changed fails the task. From then on the folder belongs to
    Delta writers: files that others add are no part of the table, and a vacuum deletes them.

    A folder that is a Delta table already is left alone, with a version that only records the run. The task returns
    ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp, metrics}``, where
    ``metrics`` has ``numConvertedFiles``, ``convertedFilesSize`` and ``numConvertedRows``, and the event of each outlet
    ``Asset`` carries the same. Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up
    the job itself.

    :param table: The folder's address: a local path, or a URI with a scheme. (templated)
    :param partition_schema: The columns of folders such as ``day=2026-01-01/country=de``, in their order, with types:
        ``day DATE, country STRING``. Needed where there are such folders; types are never guessed. Values are unescaped
        as Hive and Spark escape them, and times without a zone mean UTC. (templated)
    :param properties: Table properties, such as ``{"delta.enableChangeDataFeed": "true"}``. Columns whose names hold
        blanks or one of ``,;{}()=`` need ``{"delta.columnMapping.mode": "name"}``. Constraints are refused, since no
        row is read. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job looks again when another writer makes the table first.
        (templated)
    :param conflict_seconds: The job looks again no later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``skip`` (the
        default) leaves the commit; ``write`` looks again, and finds a table. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[ConvertRequest]] = ConvertRequest
    job: ClassVar[str] = "convert"

    template_fields_renderers: ClassVar[dict[str, str]] = {"properties": "json"}
    template_fields: Sequence[str] = (*DeltaCommitOperator.template_fields, "partition_schema", "properties")

    def __init__(
        self,
        *,
        table: str,
        partition_schema: str | None = None,
        properties: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.partition_schema = partition_schema
        self.properties = properties

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  as the base class
        """The conversion makes the table."""
        return False
