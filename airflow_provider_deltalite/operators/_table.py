"""The operator that creates or alters a table: `DeltaTableOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, Request, TableRequest


class DeltaTableOperator(DeltaCommitOperator):
    """Create a Delta table as you declare it, or alter an existing table to match the declaration.

    Without a table at the address, the task creates an empty one. Otherwise the task compares the table with your
    parameters and commits the difference in one version. If there is no difference, it commits nothing. So the task can
    run before each load, and a change of the DAG changes the table.

    Columns, properties and constraints of the table that you do not name stay. For a column that you name, the task

    - widens the type, if the table has ``delta.enableTypeWidening`` or ``properties`` sets it,
    - adds ``NOT NULL`` if you declare it, and removes it if you do not,
    - sets the comment and the default, if you declare them.

    Existing rows have NULL in a new column. So a table with rows gets no new column with ``NOT NULL``, with a
    ``DEFAULT`` or with generated values. The task also does not narrow a type, replace it by an unrelated type, change
    a generation expression, or change the partition columns. Instead it fails and leaves the table as it is.

    A new constraint or ``NOT NULL`` must hold for all rows of the table, so the task reads them. It fails with the
    first row that breaks the rule.

    If ``properties`` sets ``delta.enableRowTracking`` in an existing table, the task first gives row ids to its files,
    100,000 files in a commit. A retry continues where the earlier task attempt stopped.

    To drop a feature with ``drop_features``, the task first rewrites each data file that needs the feature. Then it
    commits three empty versions with a checkpoint each. Clients without the feature can read these versions and later
    ones. The table gets the feature ``checkpointProtection``, which keeps these checkpoints. Time travel to older
    versions still needs the dropped feature.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``. The event of each outlet ``Asset`` contains the same values. ``operation`` is ``CREATE TABLE`` or
    ``ALTER TABLE``. ``metrics`` counts the changes (``numAddedColumns``, ``numChangedColumns``,
    ``numChangedProperties``, ``numBackfilledFiles``, ``numRewrittenFiles``). You can also give every parameter of
    ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param schema: The columns as in ``CREATE TABLE``, such as ``id BIGINT NOT NULL, day DATE COMMENT 'of the order'``,
        or the name of a ``.sql`` file with them. A column may have ``DEFAULT``, ``GENERATED ALWAYS AS (…)`` or
        ``GENERATED … AS IDENTITY``. Required to create a table. (templated)
    :param partition_by: The partition columns of a new table. An existing table must have the same. (templated)
    :param cluster_by: The clustering columns, at most four; ``[]`` ends the clustering. ``DeltaOptimizeOperator``
        orders the rows by them. A partitioned table cannot have them. (templated)
    :param properties: Table properties, such as ``{"delta.appendOnly": "true"}``, and table features
        (``delta.feature.<name>``: ``supported``). (templated)
    :param unset_properties: The properties that the table must not have. (templated)
    :param constraints: CHECK constraints: the SQL condition of each name, such as ``{"positive": "amount > 0"}``.
        (templated)
    :param drop_constraints: The names of the constraints that the table must not have. (templated)
    :param drop_features: The table features that the table must not have: ``typeWidening``, ``typeWidening-preview``.
        (templated)
    :param description: The table's description. (templated)
    :param reset_flows: The last loaded version of incremental sources, by the name of the flow, such as
        ``{"orders": 41}``. None loads the complete snapshot again. Run such a task once, because each run sets the
        offsets again. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans after another writer's commit. Each commit of row ids counts
        separately. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) compares the
        table with the declaration again; ``skip`` keeps the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[TableRequest]] = TableRequest
    job: ClassVar[str] = "table"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
        "schema",
        "partition_by",
        "cluster_by",
        "properties",
        "unset_properties",
        "constraints",
        "drop_constraints",
        "drop_features",
        "description",
        "reset_flows",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DeltaCommitOperator.template_fields_renderers,
        "schema": "sql",
        "properties": "json",
        "constraints": "json",
        "reset_flows": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaCommitOperator.sql_texts | {"schema"}
    sql_structures: ClassVar[frozenset[str]] = DeltaCommitOperator.sql_structures | {"constraints"}

    def __init__(
        self,
        *,
        table: str,
        schema: str | None = None,
        partition_by: Sequence[str] | None = None,
        cluster_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        unset_properties: Sequence[str] | None = None,
        constraints: Mapping[str, str] | None = None,
        drop_constraints: Sequence[str] | None = None,
        drop_features: Sequence[str] | None = None,
        description: str | None = None,
        reset_flows: Mapping[str, int | None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.schema = schema
        self.partition_by = partition_by
        self.cluster_by = cluster_by
        self.properties = properties
        self.unset_properties = unset_properties
        self.constraints = constraints
        self.drop_constraints = drop_constraints
        self.drop_features = drop_features
        self.description = description
        self.reset_flows = reset_flows

    def needs_table(self, request: Request) -> bool:
        """Return False if the task can create the table."""
        return cast("TableRequest", request).schema is None

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task compares the table with the declaration again."""
        return OnRerun.WRITE
