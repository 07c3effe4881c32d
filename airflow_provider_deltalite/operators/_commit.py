"""What every operator that commits has: the identity of its run, which makes each commit happen once.

The identity is decided before the table's log is looked at, and the log is looked at before a job is submitted: a run
that has committed returns that commit. What a clear means is the operator's policy (`on_rerun`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.common.compat.sdk import conf

from airflow_provider_deltalite.idempotency import run_identity
from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from airflow_provider_deltalite.rendered import fitted
from deltalite.requests import CommitRequest, OnRerun, Request, RunIdentity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaCommitOperator(DeltaSubmitOperator):
    """Run one request that ends in a commit, once for each run of the task.

    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the operation again when another writer's commit
        contradicts it. (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param on_rerun: What the task does when it is cleared: ``skip``, ``write`` or ``replace``. (templated)
    :param kwargs: Parameters of ``DeltaSubmitOperator``.
    """

    request_class: ClassVar[type[CommitRequest]]

    template_fields: Sequence[str] = (
        *DeltaSubmitOperator.template_fields,
        "user_metadata",
        "conflict_retries",
        "conflict_seconds",
        "on_rerun",
    )

    def __init__(
        self,
        *,
        user_metadata: str | None = None,
        conflict_retries: int = 3,
        conflict_seconds: int = 600,
        on_rerun: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.user_metadata = user_metadata
        self.conflict_retries = conflict_retries
        self.conflict_seconds = conflict_seconds
        self.on_rerun = on_rerun

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  operators decide by it
        """What a clear does where the author has not said it: nothing twice, unless an operator knows better."""
        return OnRerun.SKIP

    def begin(self, request: Request, context: Context) -> Request:
        """The request with the identity of this run."""
        asked = cast("CommitRequest", request)
        identity = self._identity(asked, context)
        self.name_tracked_job(identity.txn_version)
        return replace(asked, identity=identity)

    def done(self, store: LogStore, request: Request) -> OperationResult | None:
        """The commit that this run has made, where there is one."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        identity = cast("RunIdentity", cast("CommitRequest", request).identity)
        return watch.find_run(store, identity.app_id, identity.txn_version)

    def announced(self, result: OperationResult) -> None:
        """Say the commit, and loudly where it is an earlier one."""
        if result.skipped:
            self.log.warning(
                "SKIPPED: this run has already committed version %s of %s, and nothing was written now.",
                result.version,
                result.table,
            )
        elif result.committed:
            self.log.info("Committed version %s of %s: %s", result.version, result.table, dict(result.metrics))
        else:
            self.log.info("Nothing was committed to %s.", result.table)

    def _identity(self, request: CommitRequest, context: Context) -> RunIdentity:
        given: OnRerun | None = fitted("on_rerun", self.on_rerun, OnRerun | None)
        on_rerun = given or self.default_on_rerun(request)
        return run_identity(
            context["ti"],
            namespace=conf.get("deltalite", "namespace", fallback="airflow"),
            generation=0 if on_rerun is OnRerun.SKIP else self.generation(context),
            on_rerun=on_rerun,
        )
