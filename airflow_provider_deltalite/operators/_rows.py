"""The operators that change rows where they stand: `DeltaDeleteOperator` and `DeltaUpdateOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, DeleteRequest, OnRerun, UpdateRequest


class DeltaRowsOperator(DeltaCommitOperator):
    """Change rows of a table that exists, once for each run of the task.

    :param out_of_order: What happens if runs of later data intervals have changed the same rows: ``fail``, ``warn`` or
        ``allow``. (templated)
    :param kwargs: Parameters of ``DeltaCommitOperator``.
    """

    template_fields: Sequence[str] = (*DeltaCommitOperator.template_fields, "out_of_order")

    def __init__(self, *, out_of_order: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.out_of_order = out_of_order

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  as the base class
        """A cleared task looks at the table again: rows that came since may have to change too."""
        return OnRerun.WRITE


class DeltaDeleteOperator(DeltaRowsOperator):
    """Delete the rows of a Delta table that satisfy a condition, once for each run of the task.

    A condition on partition columns alone, or none, takes files out of the table without reading them. Any other one is
    looked for in the files whose statistics allow it; those that hold such rows are written again without them, or
    keep a deletion vector where the table has ``delta.enableDeletionVectors``. A table with ``delta.appendOnly`` is
    left as it is, with an error.

    Each commit carries the identity of the task's run, also where no row was deleted, so a retry whose earlier try has
    committed returns that commit and does nothing. The task returns ``{table, operation, version, read_version,
    committed, skipped, app_id, txn_version, timestamp, metrics}``, and the event of each outlet ``Asset`` carries the
    same. Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up the job itself.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param condition: Spark SQL; the rows for which it is true are deleted. One that a template or another task has
        emptied is refused. Subqueries and functions that are not deterministic are refused. (templated)
    :param confirm_all_rows: True confirms a delete of every row. Without it, a delete is refused if it has no
        ``condition``, or one that is always true, such as ``1 = 1``. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the delete again when another writer's commit contradicts
        it; 0 leaves that to Airflow's retries. (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) deletes again, on the table as it is then; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
    :param out_of_order: What happens if runs of later data intervals have already changed rows that this one may touch:
        ``fail`` (the default of a cleared task), ``warn`` (the default of a first run) or ``allow``, for a delete
        that gives the same rows in any order. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[DeleteRequest]] = DeleteRequest
    job: ClassVar[str] = "delete"

    template_fields: Sequence[str] = (*DeltaRowsOperator.template_fields, "condition", "confirm_all_rows")
    template_fields_renderers: ClassVar[dict[str, str]] = {"condition": "sql"}
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"condition"}

    def __init__(
        self, *, table: str, condition: str | None = None, confirm_all_rows: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.condition = condition
        self.confirm_all_rows = confirm_all_rows


class DeltaUpdateOperator(DeltaRowsOperator):
    """Give other values to the rows of a Delta table that satisfy a condition, once for each run of the task.

    A condition on partition columns alone, or none, rewrites the files of these partitions without a search; any other
    one is looked for in the files whose statistics allow it. Where the table has ``delta.enableDeletionVectors`` only
    the changed rows are written.

    Each commit carries the identity of the task's run, also where no row was changed, so a retry whose earlier try has
    committed returns that commit and does nothing. The task returns ``{table, operation, version, read_version,
    committed, skipped, app_id, txn_version, timestamp, metrics}``, and the event of each outlet ``Asset`` carries the
    same. Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up the job itself.

    A cleared task updates again: ``{"visits": "visits + 1"}`` then counts twice. Give ``on_rerun="skip"`` to an update
    whose values depend on what they were.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param set: Spark SQL by column, ``{"status": "'closed'", "address.city": "upper(address.city)"}``; each expression
        sees the row as it was. Expressions are rendered as text, also with ``render_template_as_native_obj``.
        (templated)
    :param condition: Spark SQL; the rows for which it is true are changed, and all rows where it is left out, as in a
        backfill of a column. One that a template or another task has emptied is refused. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the update again when another writer's commit contradicts
        it; 0 leaves that to Airflow's retries. (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) updates again, on the table as it is then; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
    :param out_of_order: What happens if runs of later data intervals have already changed rows that this one may touch:
        ``fail`` (the default of a cleared task), ``warn`` (the default of a first run) or ``allow``, for an update
        that gives the same rows in any order. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[UpdateRequest]] = UpdateRequest
    job: ClassVar[str] = "update"

    template_fields: Sequence[str] = (*DeltaRowsOperator.template_fields, "set", "condition")
    template_fields_renderers: ClassVar[dict[str, str]] = {"set": "json", "condition": "sql"}
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"condition"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"set"})

    def __init__(
        self,
        *,
        table: str,
        set: Mapping[str, str],  # noqa: A002  SQL's own word
        condition: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.set = set
        self.condition = condition
