"""The operator that deletes dead files: `DeltaVacuumOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, Request, VacuumRequest

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaVacuumOperator(DeltaCommitOperator):
    """Delete the files below a Delta table that no version inside the retention needs.

    Files that a version removed go once ``delta.deletedFileRetentionDuration`` (7 days by default) has passed since
    their removal, with their deletion vectors and recorded changes. Files that no version names, such as those of jobs
    that were killed, go by their own age, and never before they are a day old: they may belong to a job at work. A
    write that takes longer than the retention from its first file to its commit can lose files; give the table a longer
    retention then. Names that begin with ``_`` or ``.`` stay, and so do links and tables inside the table. Time travel
    and change feeds work for every version that was current inside the retention, and may end for older ones.

    The table's history shows ``VACUUM START`` and ``VACUUM END``. The latter carries the identity of the task's run, so
    a retry whose earlier try has ended returns that, and one whose earlier try was killed deletes what is left. The
    task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``, and the event of each outlet ``Asset`` carries the same. Every parameter of ``SparkSubmitOperator`` can
    be given too, except those that make up the job itself.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param retention_hours: Keep what was removed in so many hours; the table's own retention where it is left out. A
        longer one is honoured; a shorter one is refused unless it is confirmed. (templated)
    :param confirm_short_retention: The table's name, the last part of its address, or the whole address: accepts a
        ``retention_hours`` shorter than the table's own, and with it that queries, streams and time travel of others
        may lose files that they need. (templated)
    :param dry_run: Only say what would go: the job's log lists files and the folders that would lose most, and
        ``metrics`` has ``numFilesToDelete``, ``sizeOfDataToDelete`` and ``numDirectoriesToDelete``. Nothing is
        committed. (templated)
    :param mode: ``full`` lists the table's folder. ``lite`` reads only the commits since the last vacuum: it costs
        little for a large table, finds no files that no version names, and is refused where the log no longer has
        those commits. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the vacuum again when the table's rules change under it.
        (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) vacuums again; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[VacuumRequest]] = VacuumRequest
    job: ClassVar[str] = "vacuum"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
        "retention_hours",
        "confirm_short_retention",
        "dry_run_only",
        "mode",
    )

    def __init__(
        self,
        *,
        table: str,
        retention_hours: int | str | None = None,
        confirm_short_retention: str | None = None,
        dry_run: bool | str = False,
        mode: str = "full",
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.retention_hours = retention_hours
        self.confirm_short_retention = confirm_short_retention
        self.dry_run_only = dry_run  # every operator has a method `dry_run`, which is Airflow's
        self.mode = mode

    def request_parameters(self) -> dict[str, object]:
        """The request's fields."""
        return super().request_parameters() | {"dry_run": self.dry_run_only}

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  as the base class
        """A cleared task looks at the table again: more files are dead by now."""
        return OnRerun.WRITE

    def done(self, store: LogStore, request: Request) -> OperationResult | None:
        """The end of an earlier try; a dry run has none."""
        return None if cast("VacuumRequest", request).dry_run else super().done(store, request)

    def announced(self, result: OperationResult) -> None:
        """Say what was deleted, or what would be."""
        if result.committed or result.skipped:
            super().announced(result)
        else:
            self.log.info("Dry run of a vacuum of %s: %s", result.table, dict(result.metrics))
