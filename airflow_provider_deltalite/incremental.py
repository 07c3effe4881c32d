"""Checks on the worker whether the sources of a run have anything new to load. If not, the task starts no job.

- Incremental sources: the worker compares the offsets in the table's log with the newest versions of the sources.
- Files that are loaded once: the worker lists the folder, and looks the files up in the record of the table.

If the worker cannot read a source, or if the source lost versions, the job decides. DAG parsing does not import this
module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite import watch
from deltalite.errors import DeltaLiteError
from deltalite.requests import CommitRequest, CopyRequest, Source, WriteMode

if TYPE_CHECKING:
    from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore
    from deltalite.watch import Snapshot


def find_finished_run(
    operator: DeltaCommitOperator, store: LogStore, request: CommitRequest, *, has_job_ended: bool = False
) -> OperationResult | None:
    """Return the commit of this DAG run, or the result if the sources have nothing new. None if there is work to do.

    The log is loaded once. `has_job_ended` is whether a job of this task attempt has ended. Such a job has already
    removed the rows that earlier attempts put into the quarantine.

    The errors are those of `watch.find_run`.
    """
    base = watch.newest_snapshot(store)
    if base is None:
        return None
    result = None if request.identity is None else watch.earlier_result(base, store.root, request.identity)
    if result is not None:
        return result
    if isinstance(request, CopyRequest):
        result = _result_without_new_files(operator, base, request)
    else:
        result = _result_without_new_versions(operator, base, request)
    if result is None or has_job_ended or not _may_have_uncommitted_rows(operator, base, request):
        return result
    return None


def _result_without_new_files(
    operator: DeltaCommitOperator, base: Snapshot, request: CopyRequest
) -> OperationResult | None:
    """Return the result if all files are loaded; None otherwise, or if it is unknown."""
    from deltalite import new_files

    try:
        source_store = DeltaHook(new_files.source_folder(request), operator.storage_conn_id).get_conn()
        return new_files.result_without_new_files(base, request, source_store)
    except DeltaLiteError as error:
        operator.log.info("This worker cannot tell whether there are new files, so the job decides: %s", error)
        return None


def _result_without_new_versions(
    operator: DeltaCommitOperator, base: Snapshot, request: CommitRequest
) -> OperationResult | None:
    """Return the result if no incremental source has a new version; None otherwise, or if it is unknown."""
    if getattr(request, "mode", None) is WriteMode.ERROR:  # the job fails, because the table exists
        return None
    sources: dict[str, Source] = dict(getattr(request, "sources", {}))
    incremental_sources = {name: source for name, source in sources.items() if source.incremental is not None}
    if not incremental_sources:
        return None
    try:
        stores = {
            name: DeltaHook(source.path or "", operator.storage_conn_id).get_conn()
            for name, source in incremental_sources.items()
        }
        return watch.result_without_new_versions(base, request, stores)
    except DeltaLiteError as error:
        operator.log.info(
            "This worker cannot tell whether the sources have new versions, so the job decides: %s", error
        )
        return None


def _may_have_uncommitted_rows(operator: DeltaCommitOperator, base: Snapshot, request: CommitRequest) -> bool:
    """Whether the quarantine may have rows of an earlier attempt of the run. The job removes such rows."""
    quarantine: str | None = getattr(request, "quarantine", None)
    if quarantine is None:
        return False
    try:
        store = DeltaHook(quarantine, operator.storage_conn_id).get_conn()
        return watch.may_have_uncommitted_rows(base, request, store)
    except DeltaLiteError as error:
        operator.log.info("This worker cannot read the quarantine, so the job decides: %s", error)
        return True
