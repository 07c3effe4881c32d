"""The question about audits of level `ask`, and its answer. DAG parsing does not import this module.

1. The job has committed nothing and reports a question. `ask` writes the question to Airflow and lets the task wait.
   The task holds no slot of a worker.
2. A worker resumes the task with the answer. `approval_of` returns the approval, asks again, or raises an error.
3. The operator runs the job again. The job commits if no accepted value got worse. Otherwise step 1 follows.

Airflow keeps one question for each task instance, also across clears and retries. If the task asks again, Airflow
removes the answer, but still shows the text of the first question. So each question has a code, which the log of the
task shows. The form has a field for the code, filled with the code of the first question. An answer counts only with
the code of the last question, or without a code if the task has asked only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_deltalite.operators._ask import AskSettings, Decision, check_can_ask
from airflow_provider_deltalite.operators._submission import forget_job
from airflow_provider_deltalite.output import escape_line
from deltalite.errors import AuditFailedError
from deltalite.requests import Approval, AuditQuestion
from deltalite.requests.approvals import different_parts, request_parts

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
    from deltalite.requests import CommitRequest

CODE = "code"
_METHOD_AFTER_ANSWER = "execute_after_answer"
_HAS_ASKED = "deltalite_has_asked"  # a key of the task state store; Airflow keeps it as long as the question
_MAX_NAME_CHARACTERS = 100
_CLEAR_TO_ASK_AGAIN = "Clear the task to write, audit and ask again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The values that Airflow keeps while a person decides, and the event that ended the wait.

    :param question: The question without sample rows, as JSON values.
    :param is_first: Whether it is the first question of the task instance. Airflow shows only the text of this one.
    :param event: The answer, as Airflow's ``HITLTrigger`` sends it.
    """

    question: Mapping[str, Any]
    is_first: bool
    event: Mapping[str, Any] | None = None

    @property
    def _event(self) -> Mapping[str, Any]:
        return self.event or {}

    @property
    def error(self) -> str | None:
        """The error that ended the wait, if any."""
        return None if "error" not in self._event else f"{self._event.get('error_type')}: {self._event['error']}"

    @property
    def has_timed_out(self) -> bool:
        """Whether nobody has answered in time."""
        return self._event.get("error_type") == "timeout"

    @property
    def is_approval(self) -> bool:
        """Whether the answer is to publish the rows."""
        return list(self._event.get("chosen_options") or ()) == [Decision.PUBLISH.label]

    @property
    def code(self) -> str | None:
        """The code that the form sent; None if it sent none."""
        return str((self._event.get("params_input") or {}).get(CODE) or "").strip() or None

    @property
    def user_id(self) -> str | None:
        """The id of the person who answered; None for the default after the timeout."""
        user = self._event.get("responded_by_user") or {}
        return str(user.get("id") or "") or None

    @property
    def user(self) -> str | None:
        """The name and the id of the person who answered; None for the default after the timeout."""
        user = self._event.get("responded_by_user") or {}
        name = str(user.get("name") or "")[:_MAX_NAME_CHARACTERS]
        user_id = (self.user_id or "")[:_MAX_NAME_CHARACTERS]
        text = f"{name} (id {user_id})" if name and user_id and name != user_id else name or user_id
        return escape_line(text) or None

    @property
    def time(self) -> str:
        """The time of the answer, in ISO 8601."""
        time = self._event.get("responded_at")
        if isinstance(time, str):
            return time
        return (time if isinstance(time, datetime) else datetime.now(UTC)).astimezone(UTC).isoformat()


def ask(operator: DeltaCommitOperator, context: Context, question: AuditQuestion) -> NoReturn:
    """Ask a person, and give the slot of the worker back until the answer.

    :param operator: The operator of the task.
    :param context: The context of the task.
    :param question: The question of the job.
    :raises BaseException: ``TaskAwaitingInput`` or, before Airflow 3.3, ``TaskDeferred``.
    """
    forget_job(operator, context)  # a run after the answer must not join the job that asked
    state = context.get("task_state_store")
    if state is None:  # before Airflow 3.3
        is_first = context["ti"].try_number == 1 and operator.approval is None
    else:
        from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]

        is_first = not state.get(_HAS_ASKED)
        state.set(_HAS_ASKED, value=True, retention=NEVER_EXPIRE)
    _ask_and_wait(operator, context, question, is_first=is_first)


def approval_of(operator: DeltaCommitOperator, context: Context, answer: Answer) -> Approval:
    """Return the approval that an answer gives.

    1. Nobody answered in time, or Airflow could not read the answer: raise an error.
    2. The answer is not to publish the rows: raise an error.
    3. Airflow chose the default `publish` after the timeout, and `ask` no longer has this default: raise an error.
    4. The person is not among the assigned users any more: ask again.
    5. The answer has the code of the question, or no code and the question is the first one: return the approval.
    6. A person answered an older question: ask again.
    7. The default after the timeout belongs to an older question: raise an error.

    Airflow keeps the assigned users and the default of the first question of a task instance. So steps 3 and 4 compare
    the answer with the parameter `ask` of this attempt.

    :param operator: The operator of the task.
    :param context: The context of the task.
    :param answer: The answer.
    :raises AuditFailedError: The rows may not be published.
    :raises BaseException: The task asks again, see `ask`.
    """
    question = AuditQuestion.from_dict(answer.question)
    audit_texts = "; ".join(audit.text for audit in question.audits)
    if answer.has_timed_out:
        raise AuditFailedError(
            f"Nobody decided in time on rows of {operator.table}: {audit_texts}.", remedy=_CLEAR_TO_ASK_AGAIN
        )
    if answer.error is not None:
        raise AuditFailedError(
            f"Airflow could not read the decision on rows of {operator.table} ({answer.error}): {audit_texts}.",
            remedy=_CLEAR_TO_ASK_AGAIN,
        )
    decided_by = answer.user or "The default after the timeout"
    if not answer.is_approval:
        raise AuditFailedError(
            f"{decided_by} rejected rows of {operator.table}: {audit_texts}. {question.effect}",
            remedy=f"Correct the rows or the audits. {_CLEAR_TO_ASK_AGAIN}",
        )
    settings = AskSettings.of(operator.ask)
    if answer.user is None and settings.default is not Decision.PUBLISH:
        raise AuditFailedError(
            f"Nobody decided in time on rows of {operator.table}: {audit_texts}. The default 'publish' belongs to an "
            "older question, and the parameter `ask` no longer has it.",
            remedy=_CLEAR_TO_ASK_AGAIN,
        )
    if answer.user is not None and not settings.allows(answer.user_id):
        operator.log.warning("%s may not accept these values any more. Asking again.", decided_by)
        return _ask_and_wait(operator, context, question, is_first=answer.is_first)
    if answer.code == question.code or (answer.code is None and answer.is_first):
        operator.log.info("%s accepted %s. Running the job again.", decided_by, audit_texts)
        return Approval(
            audits=question.audits,
            measured_at_ms=question.measured_at_ms,
            accepted_by=answer.user or "default after the timeout",
            accepted_at=answer.time,
            request=question.request,
        )
    if answer.user is None:
        raise AuditFailedError(
            f"Nobody decided in time on rows of {operator.table}: {audit_texts}. The default belongs to an older "
            "question.",
            remedy=_CLEAR_TO_ASK_AGAIN,
        )
    operator.log.warning(
        "%s answered with the code %s of an older question. Asking again.", decided_by, answer.code or "(none)"
    )
    return _ask_and_wait(operator, context, question, is_first=False)


def still_applies(operator: DeltaCommitOperator, approval: Approval, request: CommitRequest) -> bool:
    """Whether an approval belongs to a request. Templates and the version of the DAG can change while a person decides.

    If the approval does not apply, the job runs without it, so that the audits ask again.

    :param operator: The operator of the task.
    :param approval: The approval.
    :param request: The request of this attempt.
    """
    parts = request_parts(request.table, request.identity, getattr(request, "audits", ()))
    names = different_parts(approval.request, parts)
    if names:
        operator.log.warning(
            "Running the job without the approval of %s, because the request changed while the task waited: %s.",
            approval.accepted_by,
            escape_line(", ".join(names)),
        )
    return not names


def _ask_and_wait(
    operator: DeltaCommitOperator, context: Context, question: AuditQuestion, *, is_first: bool
) -> NoReturn:
    from airflow.sdk.execution_time.hitl import upsert_hitl_detail

    settings = AskSettings.of(operator.ask)
    check_can_ask()
    options = [decision.label for decision in Decision]
    defaults = None if settings.default is None else [settings.default.label]
    params = _form(question.code)
    upsert_hitl_detail(
        ti_id=context["ti"].id,
        options=options,
        subject=f"Publish rows in {escape_line(str(operator.table))}?",
        body=body_of(question, str(operator.table), context["ti"].try_number),
        defaults=defaults,
        params=params,
        assigned_users=[{"id": str(user["id"]), "name": str(user["name"])} for user in settings.assigned_users],
    )
    operator.log.info("Waiting for a decision on these audits (code %s):", question.code)
    for audit in question.audits:
        operator.log.info("  %s", escape_line(audit.text))
        if audit.reason:
            operator.log.warning("  The task asks again, because %s.", escape_line(audit.reason))
        for sample in question.samples.get(audit.name, ()):
            operator.log.info("    %s", escape_line(sample))
    if not is_first:
        operator.log.warning(
            "Airflow may still show an older question of this task. To accept the values above, enter the code %s with "
            "the answer.",
            question.code,
        )
    for notifier in settings.notifiers:
        try:
            notifier(context)
        except Exception as error:  # noqa: BLE001  the question is in Airflow, so the task can wait
            operator.log.warning("Could not notify with %s: %s", type(notifier).__name__, error)
    kwargs = {"question": question.without_samples.as_dict(), "is_first": is_first}
    _wait(operator, context, settings, kwargs, options=options, defaults=defaults, params=params)


def _wait(
    operator: DeltaCommitOperator,
    context: Context,
    settings: AskSettings,
    kwargs: dict[str, Any],
    *,
    options: list[str],
    defaults: list[str] | None,
    params: Mapping[str, Mapping[str, Any]],
) -> NoReturn:
    try:
        from airflow.sdk.exceptions import TaskAwaitingInput
    except ImportError:  # before Airflow 3.3
        from airflow.providers.standard.triggers.hitl import HITLTrigger

        end = None if settings.timeout is None else datetime.now(UTC) + settings.timeout
        trigger = HITLTrigger(
            ti_id=context["ti"].id,
            options=options,
            defaults=defaults,
            params={name: dict(param) for name, param in params.items()},  # the trigger changes its argument
            timeout_datetime=end,
        )
        operator.defer(trigger=trigger, method_name=_METHOD_AFTER_ANSWER, kwargs=kwargs)
    raise TaskAwaitingInput(method_name=_METHOD_AFTER_ANSWER, kwargs=kwargs, timeout=settings.timeout)


def _form(code: str) -> dict[str, dict[str, Any]]:
    """Return the fields of the form: the code of the question."""
    from airflow.sdk import Param

    description = (
        "The code of the values above. If the task has asked again, its log has newer values and another code. "
        "Enter that code to accept the newer values."
    )
    return {CODE: Param(code, type="string", title="Code", description=description).serialize()}


def body_of(question: AuditQuestion, table: str, try_number: int) -> str:
    """Return the text of the question in Markdown. Values of the table are in code, so Markdown ignores them."""
    time = datetime.fromtimestamp(question.measured_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    lines = [
        "These audits did not pass. The rows are not published:",
        *_code_block([audit.text for audit in question.audits]),
    ]
    for name, samples in question.samples.items():
        lines += [f"Samples of the audit {_inline(name)}:", *_code_block(samples)]
    effect_of_publish = "the task writes and audits the rows again. It commits unless a value is worse than above."
    lines += [
        f"Table: {_inline(table)}. Measured by attempt {try_number} at {time}.",
        *_code_block([question.effect]),
        f"**{Decision.PUBLISH.label}**: {effect_of_publish} If a value is worse, it asks again.",
        "",
        f"**{Decision.REJECT.label}**: the task fails, and the table stays as it is.",
    ]
    return "\n".join(lines)


def _code_block(texts: Any) -> list[str]:
    """Return a block of code. Each text is one line, and is indented so that it cannot end the block."""
    return ["", "```text", *(f"    {escape_line(text)}" for text in texts if text), "```", ""]


def _inline(text: str) -> str:
    return f"`{escape_line(text).replace('`', chr(39))}`"
