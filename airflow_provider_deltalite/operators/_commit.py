"""The base class of operators that commit: it adds the run identity, so that each DAG run commits once.

1. The operator makes the run identity.
2. It reads the table's log. If the DAG run has committed, the task returns that commit.
3. Otherwise it submits the job.

The parameter `on_rerun` says what a cleared task does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from airflow_provider_deltalite.operators._ask import AskSettings, check_can_ask, has_questions
from airflow_provider_deltalite.operators._audits import log_audits
from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from airflow_provider_deltalite.parse_time import Constants
from airflow_provider_deltalite.rendered import convert_value
from deltalite.requests import CommitRequest, OnRerun, Request, RunIdentity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from deltalite.requests import AuditQuestion
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaCommitOperator(DeltaSubmitOperator):
    """Run one request that ends in a commit, once for each DAG run.

    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the operation after a conflict with another writer's commit.
        (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param on_rerun: Decides what a cleared task does: ``skip``, ``write`` or ``replace``. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
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
    ask: Mapping[str, Any] | None = None
    """How a person is asked about audits of level `ask`. Operators with audits have a parameter of this name."""

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

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  subclasses use the request
        """Return the value of `on_rerun` if the author gives none."""
        return OnRerun.SKIP

    def known_parameters(self, constants: Constants) -> dict[str, object]:
        """Return the request's fields and `on_rerun`, which the request checks as a part of the run identity."""
        parameters = super().known_parameters(constants)
        if self.on_rerun is None or constants.is_unknown_at_parse_time(self.on_rerun):
            return parameters
        on_rerun: OnRerun = convert_value("on_rerun", self.on_rerun, OnRerun)
        return parameters | {"identity": RunIdentity(app_id="known when the task runs", on_rerun=on_rerun)}

    def prepare_request(self, request: Request, context: Context) -> Request:
        """Add the run identity, and a person's approval if it still applies. Redact secrets in `user_metadata`."""
        from deltalite.redaction import redacted, secret_values

        commit_request = cast("CommitRequest", request)
        if commit_request.user_metadata is not None:
            redacted_metadata = redacted(commit_request.user_metadata, secret_values(self.values_with_secrets()))
            commit_request = replace(commit_request, user_metadata=redacted_metadata)
        identity = self._identity(commit_request, context)
        self.set_tracking_keys(identity.generation)
        commit_request = replace(commit_request, identity=identity)
        if has_questions(getattr(commit_request, "audits", ())):
            check_can_ask()
        if self.approval is not None:
            from airflow_provider_deltalite.operators._asking import still_applies

            if still_applies(self, self.approval, commit_request):
                return replace(commit_request, approval=self.approval)
        return commit_request

    def execute_after_answer(self, context: Context, **answer: Any) -> dict[str, Any]:
        """Run the job again if a person has accepted the values of audits, and return its result."""
        from airflow_provider_deltalite.failures import raise_for_airflow
        from airflow_provider_deltalite.operators._asking import Answer, approval_of

        with raise_for_airflow(self.log, self._failed_table):
            approval = approval_of(self, context, Answer(**answer))
        return self._run(context, None, approval)

    def ask_person(self, context: Context, question: AuditQuestion) -> NoReturn:
        """Ask a person about audits of level `ask`, and give the slot of the worker back until the answer."""
        from airflow_provider_deltalite.operators._asking import ask

        ask(self, context, question)

    def check_constants(self, constants: Constants) -> None:
        """Reject wrong parameters when the DAG is parsed, also a wrong value of `ask`."""
        super().check_constants(constants)
        AskSettings.of(self.ask)
        if has_questions(getattr(self, "audits", ())):
            check_can_ask()

    def find_finished_run(self, store: LogStore, request: Request) -> OperationResult | None:
        """Return the commit of this DAG run, or a skipped result if its sources have nothing new; else None."""
        from airflow_provider_deltalite.incremental import find_finished_run

        return find_finished_run(self, store, cast("CommitRequest", request))

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:
        """Return the result of `find_finished_run`. After a failed job, return only the result of a commit."""
        result = self.find_finished_run(store, request)
        return None if failed and result is not None and result.skip_reason else result

    def log_result(self, result: OperationResult) -> None:
        """Log the commit, with a warning if an earlier task attempt made it."""
        if result.skip_reason:
            self.log.warning("SKIPPED: %s", result.skip_reason)
        elif result.skipped:
            self.log.warning(
                "SKIPPED: this task has committed version %s of %s before (transaction %s), so it wrote nothing now. "
                "To write again, set on_rerun='write' and clear the task.",
                result.version,
                result.table,
                result.app_id,
            )
        elif result.committed:
            self.log.info("Committed version %s of %s: %s", result.version, result.table, dict(result.metrics))
        else:
            self.log.info("Made no commit to %s.", result.table)
        log_audits(self.log, result)

    def _identity(self, request: CommitRequest, context: Context) -> RunIdentity:
        from airflow_provider_deltalite.idempotency import configured_namespace, run_identity
        from airflow_provider_deltalite.request_digest import request_digests

        on_rerun: OnRerun | None = convert_value("on_rerun", self.on_rerun, OnRerun | None)
        return run_identity(
            context,
            namespace=configured_namespace(),
            generation=self.store_generation(context),
            on_rerun=on_rerun or self.default_on_rerun(request),
            idempotency_key=convert_value("idempotency_key", self.idempotency_key, str | None),
            digests=request_digests(request),
        )
