"""The operator that keeps a history table: `DeltaScdOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow_provider_deltalite.operators._quarantine import DeltaQuarantineOperator
from airflow_provider_deltalite.operators._rows import DeltaRowsOperator
from airflow_provider_deltalite.operators._sources import (
    SOURCE_FIELDS,
    SOURCE_RENDERERS,
    delta_addresses,
    sources_by_view,
)
from deltalite.requests import Request, ScdRequest


class DeltaScdOperator(DeltaQuarantineOperator, DeltaRowsOperator):
    """Keep the history (type 2) or the newest row (type 1) of each key in a Delta table, once for each DAG run.

    A source row gives its key new values, or deletes the key. ``sequence_by`` orders the rows of a key. The first run
    creates the table. Rows may be late, repeated, or from a backfill of an old day. The order in which they arrive does
    not change the result, unless ``on_same_sequence`` is ``replace``.

    - Type 2: a new value of a tracked column ends the row of the key and begins a new one. The table has the columns
      of the source and ``valid_from``, ``valid_to`` (exclusive), ``is_current`` and ``_scd_events``.
    - Type 1: the table has one row for each key, with the values of the newest source row. It has the columns of the
      source and ``valid_from`` (the sequence of this source row) and ``is_current``. A deleted key keeps a row without
      values, in which ``is_current`` is false.

    The task fails and writes nothing if rows of one key and one sequence differ, or if a key or a sequence is null. An
    audit of level ``quarantine`` can put such rows into another table.

    The task commits the run identity even if it changes no row. A retry therefore finds the commit of an earlier
    attempt, returns it, and does nothing. The task returns ``{table, operation, version, read_version, committed,
    skipped, app_id, txn_version, timestamp, metrics}``, and ``quarantine`` (``{table, version, rows}``) if it has one.
    The event of each outlet ``Asset`` contains the same values. You can also give every parameter of
    ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The input, as in ``DeltaWriteOperator``. (templated)
    :param sources: Several inputs, by the names of their views. Give either this or ``source``. (templated)
    :param query: A Spark SQL query on the views that returns the source rows. By default, all rows of ``source``.
        (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. (templated)
    :param deduplicate: Keep one source row for each key, as in ``DeltaWriteOperator``. Rows that are equal in all
        columns need no ``deduplicate``. Rows that audits of level ``quarantine`` reject do not count. (templated)
    :param keys: The columns that identify a row, such as ``["customer"]``. (templated)
    :param sequence_by: The column, or a Spark SQL expression on the source's columns, that orders the rows of a key:
        a time, a date, a number or a text. (templated)
    :param scd_type: 2 keeps the history, 1 the newest row of each key. (templated)
    :param track: Type 2: a new value in one of these columns makes a new row. Other columns show the newest value of
        the row's range. By default, all columns except the keys and the columns that ``sequence_by`` reads. (templated)
    :param delete_when: Spark SQL on the source's columns: a row for which it is true deletes its key. (templated)
    :param exclude: Columns of the source that the table does not get, such as the column of ``delete_when``.
        (templated)
    :param on_same_sequence: Decides about a row that differs from the table's row of the same key and sequence.
        ``fail`` refuses it. ``replace`` takes the source's row, so the order of the runs then matters. (templated)
    :param valid_from: The name of the column with the beginning of a row's range. (templated)
    :param valid_to: The name of the column with the end of a row's range, null for a current row. (templated)
    :param current: The name of the column that is true for the current row of a key. (templated)
    :param events: The name of the column for source rows that the other columns do not show, such as repeats.
        (templated)
    :param merge_schema: Add source columns that the table lacks, and write NULL for columns that the source lacks. In a
        table with ``delta.enableTypeWidening``, also widen columns to the types of the source. (templated)
    :param partition_by: The partition columns, in order, of a table that the task creates. (templated)
    :param properties: The properties of a table that the task creates. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans after a conflict with another writer's commit. With 0, only
        Airflow's retries repeat it. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table or to its quarantine at the same time.
        Needed only on storage without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) applies the
        rows again, which changes nothing if they are the same; ``skip`` keeps the commit. (templated)
    :param idempotency_key: A text that names what the task writes, such as ``{{ task.source.path }}`` of a mapped task.
        It identifies the commit instead of DAG run, task and map index. (templated)
    :param out_of_order: Decides what the task does if runs of later data intervals have already changed rows that it
        may touch: ``fail``, ``warn`` or ``allow``. The default is ``allow``. With ``on_same_sequence="replace"``, the
        default is the same as in ``DeltaMergeOperator``. (templated)
    :param audits: Named checks of the written rows or of the table, which run before the commit, such as
        ``{"name": "no_negative_price", "rows": "price < 0"}``. The written rows include rows whose range ends. If an
        audit does not pass, the task fails and commits nothing, or with ``"level": "warn"`` logs a warning. With
        ``"level": "quarantine"``, a ``rows`` audit reads the columns of the source: the rows for which it is true go to
        ``quarantine``, and the history does not get them. (templated)
    :param quarantine: The address of a Delta table for the source rows that audits of level ``quarantine`` reject, as
        in ``DeltaWriteOperator``. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[ScdRequest]] = ScdRequest
    job: ClassVar[str] = "scd"

    template_fields: Sequence[str] = (
        *DeltaRowsOperator.template_fields,
        *SOURCE_FIELDS,
        "keys",
        "sequence_by",
        "scd_type",
        "track",
        "delete_when",
        "exclude",
        "on_same_sequence",
        "valid_from",
        "valid_to",
        "current",
        "events",
        "merge_schema",
        "partition_by",
        "properties",
        "quarantine",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DeltaRowsOperator.template_fields_renderers,
        **SOURCE_RENDERERS,
        "sequence_by": "sql",
        "delete_when": "sql",
        "properties": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"query", "sequence_by", "delete_when"}
    sql_structures: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_structures | {"deduplicate"}

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any] | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        deduplicate: Mapping[str, Any] | None = None,
        keys: Sequence[str],
        sequence_by: str,
        scd_type: int = 2,
        track: Sequence[str] | None = None,
        delete_when: str | None = None,
        exclude: Sequence[str] | None = None,
        on_same_sequence: str = "fail",
        valid_from: str = "valid_from",
        valid_to: str = "valid_to",
        current: str = "is_current",
        events: str = "_scd_events",
        merge_schema: bool = False,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        quarantine: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.sources = sources
        self.query = query
        self.query_params = query_params
        self.deduplicate = deduplicate
        self.keys = keys
        self.sequence_by = sequence_by
        self.scd_type = scd_type
        self.track = track
        self.delete_when = delete_when
        self.exclude = exclude
        self.on_same_sequence = on_same_sequence
        self.valid_from = valid_from
        self.valid_to = valid_to
        self.current = current
        self.events = events
        self.merge_schema = merge_schema
        self.partition_by = partition_by
        self.properties = properties
        self.quarantine = quarantine

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields. A single source becomes the view `source`."""
        return super().request_parameters() | {"sources": sources_by_view(self.source, self.sources)}

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  the base class has it
        """Return False, because the first run creates the table."""
        return False

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of the table, the quarantine, and the Delta tables among the sources and in audits."""
        return [*super().addresses(request), *delta_addresses(cast("ScdRequest", request).sources)]
