"""The parameter `ask` of operators with audits: how a person is asked about audits of level `ask`.

DAG parsing imports this module. `_asking.py` asks the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Self

from packaging.version import Version

from deltalite.errors import InstallationError, InvalidRequestError
from deltalite.requests import AuditLevel

_MIN_STANDARD_PROVIDER = (1, 21)  # the oldest version with which questions are tested
_REQUIREMENT = (
    "Install Airflow 3.1.8 or later with apache-airflow-providers-standard 1.21 or later, or choose another level."
)
_KEYS = ("timeout", "default", "assigned_users", "notifiers")


class Decision(StrEnum):
    """The decisions on rows that audits of level `ask` refuse."""

    PUBLISH = "publish"
    REJECT = "reject"

    @property
    def label(self) -> str:
        """The text of the button in Airflow."""
        return self.value.capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSettings:
    """How a person is asked.

    - `timeout`: how long the task waits for an answer; None for no limit.
    - `default`: the decision after the timeout; None fails the task, as `reject` does.
    - `assigned_users`: the users who may answer, as `{"id": ..., "name": ...}`; empty for all whom Airflow allows.
    - `notifiers`: Airflow's notifiers, which are called with the context of the task.
    """

    timeout: timedelta | None = None
    default: Decision | None = None
    assigned_users: tuple[Mapping[str, str], ...] = ()
    notifiers: tuple[Any, ...] = ()

    def allows(self, user_id: str | None) -> bool:
        """Whether the user with this id may accept values."""
        return not self.assigned_users or user_id in {str(user["id"]) for user in self.assigned_users}

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> Self:
        """Return the settings of the parameter `ask`.

        Raises:
            InvalidRequestError: A key is unknown, or a value is wrong.
        """
        if values is None:
            return cls()
        if not isinstance(values, Mapping):
            raise InvalidRequestError(
                f"ask is {values!r}, not a mapping.", remedy=f"Known keys are {', '.join(_KEYS)}."
            )
        for key in values:
            if key not in _KEYS:
                raise InvalidRequestError(
                    f"ask has the unknown key {key!r}.", remedy=f"Known keys are {', '.join(_KEYS)}."
                )
        timeout = values.get("timeout")
        if timeout is not None and not (isinstance(timeout, timedelta) and timeout > timedelta(0)):
            raise InvalidRequestError(f"ask.timeout is {timeout!r}.", remedy="Give a timedelta above zero.")
        default = values.get("default")
        if default is not None and default not in tuple(Decision):
            raise InvalidRequestError(
                f"ask.default is {default!r}.", remedy=f"Choose one of {', '.join(map(repr, map(str, Decision)))}."
            )
        if default is not None and timeout is None:
            raise InvalidRequestError(
                "ask.default has no effect without ask.timeout.", remedy="Give a timeout, or leave the default out."
            )
        users = _as_tuple(values.get("assigned_users"))
        if (not users and values.get("assigned_users") is not None) or not all(map(_is_user, users)):
            raise InvalidRequestError(
                f"ask.assigned_users is {values['assigned_users']!r}.",
                remedy='Give users as {"id": ..., "name": ...}, or leave the key out so that all users may answer.',
            )
        notifiers = _as_tuple(values.get("notifiers"))
        if not all(map(callable, notifiers)):
            raise InvalidRequestError(
                f"ask.notifiers is {values['notifiers']!r}.", remedy="Give notifiers of Airflow, or one of them."
            )
        return cls(
            timeout=timeout,
            default=None if default is None else Decision(default),
            assigned_users=users,
            notifiers=notifiers,
        )


def has_questions(audits: object) -> bool:
    """Whether an audit has the level `ask`. `audits` comes from a request, or is the parameter that the author gave."""
    if not isinstance(audits, Sequence) or isinstance(audits, str):
        return False
    return any(
        (audit.get("level") if isinstance(audit, Mapping) else getattr(audit, "level", None)) == AuditLevel.ASK
        for audit in audits
    )


def check_can_ask() -> None:
    """Raise an error if this Airflow cannot ask a person.

    Raises:
        InstallationError: Airflow or its standard provider lacks human-in-the-loop, or is too old.
    """
    missing = [
        name
        for name in ("airflow.sdk.execution_time.hitl", "airflow.providers.standard.triggers.hitl")
        if not _is_installed(name)
    ]
    if missing:
        raise InstallationError(
            f"Audits of level 'ask' need Airflow's human-in-the-loop, but {' and '.join(missing)} is not installed.",
            remedy=_REQUIREMENT,
        )
    from airflow import sdk

    if not hasattr(sdk.Param, "serialize"):  # Airflow 3.1.0 to 3.1.2
        raise InstallationError("Audits of level 'ask' do not work with this Airflow.", remedy=_REQUIREMENT)
    provider_version = version("apache-airflow-providers-standard")
    if Version(provider_version).release < _MIN_STANDARD_PROVIDER:
        raise InstallationError(
            f"Audits of level 'ask' do not work with apache-airflow-providers-standard {provider_version}.",
            remedy=_REQUIREMENT,
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def _is_user(user: Any) -> bool:
    return isinstance(user, Mapping) and all(
        isinstance(user.get(key), str | int) and str(user[key]).strip() for key in ("id", "name")
    )


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
