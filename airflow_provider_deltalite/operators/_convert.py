"""The operator that converts a folder of Parquet files into a Delta table: `DeltaConvertOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import ConvertRequest, Request


class DeltaConvertOperator(DeltaCommitOperator):
    """Convert a folder of Parquet files into a Delta table, in place and in one commit.

    The task moves and changes no file. It reads only the footers, for the schema and the statistics. The files may have
    different columns: the table has the columns of all files, and every column may be null.

    The task fails, names the cause and leaves the folder unchanged in these cases:

    - two files have contradicting schemas;
    - a column cannot exist in a Delta table;
    - the folder contains other files than Parquet files;
    - a file appeared, vanished or changed before the commit. Nothing should write to the folder during the conversion.

    After the conversion, only Delta writers may use the folder. A file that another program adds is not part of the
    table, and a vacuum deletes it.

    If the folder is already a Delta table, the task only records the run, in a new version. The task returns ``{table,
    operation, version, read_version, committed, skipped, app_id, txn_version, timestamp, metrics}``. The event of each
    outlet ``Asset`` contains the same values. ``metrics`` has ``numConvertedFiles``, ``convertedFilesSize`` and
    ``numConvertedRows``. You can also give every parameter of ``SparkSubmitOperator`` except ``application_args`` and
    ``java_class``.

    :param table: The folder's address: a local path, or a URI with a scheme. (templated)
    :param partition_schema: The columns of folders such as ``day=2026-01-01/country=de``, in their order and with their
        types: ``day DATE, country STRING``. Required if there are such folders, because types are never guessed. The
        task unescapes the values as Hive and Spark do. Times without a zone mean UTC. (templated)
    :param properties: Table properties, such as ``{"delta.enableChangeDataFeed": "true"}``. Columns whose names contain
        blanks or one of ``,;{}()=`` need ``{"delta.columnMapping.mode": "name"}``. Constraints are rejected, because
        the task reads no rows. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job checks the folder again after another writer has created the table.
        (templated)
    :param conflict_seconds: The job stops checking again this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``skip`` (the default) keeps the
        commit; ``write`` only records the run again. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
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

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  the base class has it
        """Return False, because the conversion makes the table."""
        return False
