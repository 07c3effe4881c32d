"""The operators that delete or update rows: `DeltaDeleteOperator` and `DeltaUpdateOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, DeleteRequest, OnRerun, UpdateRequest


class DeltaRowsOperator(DeltaCommitOperator):
    """Change rows of an existing table, once for each DAG run.

    :param out_of_order: Decides what the task does if runs of later data intervals have changed the same rows:
        ``fail``, ``warn`` or ``allow``. (templated)
    :param audits: Named checks that run on the written files before the commit. (templated)
    :param ask: How a person is asked about audits of level ``ask``: ``timeout`` (a timedelta), ``default`` (the
        decision after this time: ``publish`` or ``reject``), ``assigned_users`` and ``notifiers``, as in Airflow's
        ``HITLOperator``. By default, the task waits without a limit, and fails after a rejection.
    :param kwargs: Parameters of ``DeltaCommitOperator``.
    """

    template_fields: Sequence[str] = (*DeltaCommitOperator.template_fields, "out_of_order", "audits")
    template_fields_renderers: ClassVar[dict[str, str]] = {"audits": "json"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"audits"})

    def __init__(
        self,
        *,
        out_of_order: str | None = None,
        audits: Sequence[Mapping[str, Any]] | None = None,
        ask: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.out_of_order = out_of_order
        self.audits = audits
        self.ask = ask

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task writes again, because new rows may satisfy the condition."""
        return OnRerun.WRITE


class DeltaDeleteOperator(DeltaRowsOperator):
    """Delete the rows of a Delta table that satisfy a condition, once for each DAG run.

    A delete without a condition, or with a condition on partition columns only, removes files without reading them. Any
    other delete reads the files that may contain such rows, by their statistics. It rewrites these files without the
    rows, or writes deletion vectors if the table has ``delta.enableDeletionVectors``. The task fails on a table with
    ``delta.appendOnly``.

    The task commits the run identity even if it deletes no row. A retry therefore finds the commit of an earlier
    attempt, returns it, and does nothing. The task returns ``{table, operation, version, read_version, committed,
    skipped, app_id, txn_version, timestamp, metrics}``. The event of each outlet ``Asset`` contains the same values.
    You can also give every parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param condition: Spark SQL. The task deletes the rows for which it is true. Subqueries, non-deterministic functions
        and a condition that is rendered as empty are rejected. (templated)
    :param confirm_all_rows: True confirms a delete of every row. Without it, the task rejects a delete without
        ``condition``, or with a condition that is always true, such as ``1 = 1``. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the delete after a conflict with another writer's commit. With 0,
        only Airflow's retries repeat it. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) deletes again,
        from the newest version; ``skip`` keeps the commit. Retries never write twice. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param out_of_order: Decides what the task does if runs of later data intervals have already changed rows that it
        may touch. The values are ``fail`` (the default after a clear), ``warn`` (the default of a first run) and
        ``allow``. Use ``allow`` for a delete that gives the same rows in any order. (templated)
    :param audits: Named checks of the remaining rows, which run before the commit, such as
        ``{"name": "not_too_many", "row_count": True, "max_change": 0.1}``. If an audit does not pass, the task fails
        and commits nothing, or with ``"level": "warn"`` logs a warning. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[DeleteRequest]] = DeleteRequest
    job: ClassVar[str] = "delete"

    template_fields: Sequence[str] = (*DeltaRowsOperator.template_fields, "condition", "confirm_all_rows")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DeltaRowsOperator.template_fields_renderers,
        "condition": "sql",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"condition"}

    def __init__(
        self, *, table: str, condition: str | None = None, confirm_all_rows: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.condition = condition
        self.confirm_all_rows = confirm_all_rows


class DeltaUpdateOperator(DeltaRowsOperator):
    """Update the rows of a Delta table that satisfy a condition, once for each DAG run.

    An update without a condition, or with a condition on partition columns only, rewrites complete partitions without a
    search. Any other update reads the files that may contain such rows, by their statistics. If the table has
    ``delta.enableDeletionVectors``, the update writes only the changed rows.

    The task commits the run identity even if it changes no row. A retry therefore finds the commit of an earlier
    attempt, returns it, and does nothing. The task returns ``{table, operation, version, read_version, committed,
    skipped, app_id, txn_version, timestamp, metrics}``. The event of each outlet ``Asset`` contains the same values.
    You can also give every parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    A cleared task updates again, so ``{"visits": "visits + 1"}`` would count twice. Give ``on_rerun="skip"`` if the new
    values depend on the old ones.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param set: Spark SQL by column, such as ``{"status": "'closed'", "address.city": "upper(address.city)"}``. Each
        expression reads the row before the update. Expressions are rendered as text, also with
        ``render_template_as_native_obj``. (templated)
    :param condition: Spark SQL. The task updates the rows for which it is true, or all rows if it is left out. A
        condition that is rendered as empty is rejected. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the update after a conflict with another writer's commit. With 0,
        only Airflow's retries repeat it. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) updates again,
        from the newest version; ``skip`` keeps the commit. Retries never write twice. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param out_of_order: Decides what the task does if runs of later data intervals have already changed rows that it
        may touch. The values are ``fail`` (the default after a clear), ``warn`` (the default of a first run) and
        ``allow``. Use ``allow`` for an update that gives the same rows in any order. (templated)
    :param audits: Named checks of the updated rows or of the table, which run before the commit, such as
        ``{"name": "amounts", "rows": "amount < 0"}``. If an audit does not pass, the task fails and commits nothing, or
        with ``"level": "warn"`` logs a warning. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[UpdateRequest]] = UpdateRequest
    job: ClassVar[str] = "update"

    template_fields: Sequence[str] = (*DeltaRowsOperator.template_fields, "set", "condition")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DeltaRowsOperator.template_fields_renderers,
        "set": "json",
        "condition": "sql",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"condition"}
    sql_structures: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_structures | {"set"}

    def __init__(
        self,
        *,
        table: str,
        set: Mapping[str, str],  # noqa: A002  SQL uses this name
        condition: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.set = set
        self.condition = condition
