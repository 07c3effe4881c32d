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
from airflow_provider_deltalite.parse_time import Constants
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
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of DAG run, task
        and map index. (templated)
    :param kwargs: Parameters of ``DeltaSubmitOperator``.
    """

    request_class: ClassVar[type[CommitRequest]]

    template_fields: Sequence[str] = (
        *DeltaSubmitOperator.template_fields,
        "user_metadata",
        "conflict_retries",
        "conflict_seconds",
        "on_rerun",
        "idempotency_key",
    )
    plain_texts: ClassVar[frozenset[str]] = frozenset({"idempotency_key"})

    def __init__(
        self,
        *,
        user_metadata: str | None = None,
        conflict_retries: int = 3,
        conflict_seconds: int = 600,
        on_rerun: str | None = None,
        idempotency_key: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.user_metadata = user_metadata
        self.conflict_retries = conflict_retries
        self.conflict_seconds = conflict_seconds
        self.on_rerun = on_rerun
        self.idempotency_key = idempotency_key

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  operators decide by it
        """What a clear does where the author has not said it: nothing twice, unless an operator knows better."""
        return OnRerun.SKIP

    def known_parameters(self, constants: Constants) -> dict[str, object]:
        """The request's fields with the policy for clears, which the constructor takes from the run's identity."""
        parameters = super().known_parameters(constants)
        if self.on_rerun is None or constants.waits(self.on_rerun):
            return parameters
        on_rerun: OnRerun = fitted("on_rerun", self.on_rerun, OnRerun)
        return parameters | {"identity": RunIdentity(app_id="known when the task runs", on_rerun=on_rerun)}

    def begin(self, request: Request, context: Context) -> Request:
        """The request with the identity of this run, and with no secret in the text that the table's history shows."""
        from deltalite.redaction import redacted, secret_values

        asked = cast("CommitRequest", request)
        if asked.user_metadata is not None:
            text = redacted(asked.user_metadata, secret_values(self.secrets_shown()))
            asked = replace(asked, user_metadata=text)
        identity = self._identity(asked, context)
        self.name_tracked_job(identity.generation)
        return replace(asked, identity=identity)

    def done(self, store: LogStore, request: Request) -> OperationResult | None:
        """The commit that this run has made, where there is one."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        identity = cast("RunIdentity", cast("CommitRequest", request).identity)
        return watch.find_run(store, identity)

    def announced(self, result: OperationResult) -> None:
        """Say the commit, and loudly where it is an earlier one."""
        if result.skipped:
            self.log.warning(
                "SKIPPED: version %s of %s is the commit of this task (transaction %s), and nothing was written now. "
                "To write again, set on_rerun='write' and clear the task.",
                result.version,
                result.table,
                result.app_id,
            )
        elif result.committed:
            self.log.info("Committed version %s of %s: %s", result.version, result.table, dict(result.metrics))
        else:
            self.log.info("Nothing was committed to %s.", result.table)

    def _identity(self, request: CommitRequest, context: Context) -> RunIdentity:
        from airflow_provider_deltalite.request_digest import asked_request

        given: OnRerun | None = fitted("on_rerun", self.on_rerun, OnRerun | None)
        on_rerun = given or self.default_on_rerun(request)
        return run_identity(
            context,
            namespace=conf.get("deltalite", "namespace", fallback="airflow"),
            generation=self.generation(context),
            on_rerun=on_rerun,
            idempotency_key=fitted("idempotency_key", self.idempotency_key, str | None),
            asked=asked_request(request),
        )
