"""The poll of a table for a version, which the sensor and its triggers share.

A poll reads the commits after a log position, up to the first one that satisfies the condition. The dictionary that
describes this commit is the sensor's XCom. If storage does not answer, the position stays and the next poll tries
again, until the sensor's timeout. Every other error is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.rendered import convert_value, parse_record
from deltalite.conditions import MADE_BY_TIMES, CommitCondition, LogPosition
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.requests.provenance import parse_time
from deltalite.storage.locations import reject_parent_segments

if TYPE_CHECKING:
    from deltalite.conditions import CommitSummary

_log = logging.getLogger(__name__)
_LONGEST_PAUSE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitParameters:
    """The parameters of a wait as a template renders them: values of any type."""

    table: object
    data_change_only: object = None
    operations: Sequence[str] | str | None = None
    partition: Mapping[str, str | None] | None = None
    app_id: object = None
    made_by: Mapping[str, Any] | None = None
    storage_conn_id: object = None

    @classmethod
    def of(cls, sensor_or_trigger: object) -> Self:
        """Return the parameters from the attributes of the same names, which a sensor and its trigger have."""
        return cls(**{field.name: getattr(sensor_or_trigger, field.name) for field in fields(cls)})

    def table_address(self) -> str:
        """Return the table's address.

        Raises:
            InvalidRequestError: the address is not a text.
            InvalidTableAddressError: the address has a parent segment (`..`), which leads out of its folder.
        """
        table: str = convert_value("table", self.table, str)
        reject_parent_segments(table)
        return table

    def conn_id(self) -> str | None:
        """Return the connection that opens the table's storage.

        Raises:
            InvalidRequestError: the connection's name is not a text.
        """
        conn_id: str | None = convert_value("storage_conn_id", self.storage_conn_id, str | None)
        return conn_id

    def condition(self) -> CommitCondition:
        """Return the condition on a commit.

        Raises:
            InvalidRequestError: a value has the wrong type, or the values contradict each other.
        """
        made_by = None if self.made_by is None else _with_utc_times(self.made_by)
        return parse_record("", {**self.condition_values(), "made_by": made_by}, CommitCondition)

    def condition_values(self) -> dict[str, Any]:
        """Return the unconverted values of the condition, except `made_by`, which `condition` converts separately."""
        names = ("data_change_only", "operations", "partition", "app_id")
        return {name: getattr(self, name) for name in names}

    def request(self) -> dict[str, Any]:
        """Return the wait as plain JSON values, which are equal for every spelling of the table's address.

        The sensor stores this request beside each value that it keeps between attempts.

        Raises:
            InvalidRequestError: see `table_address`, `conn_id` and `condition`.
            InvalidTableAddressError: the address is invalid.
        """
        return wait_request(self.table_address(), self.condition(), self.conn_id())


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWait:
    """A wait for a commit after version `after_version` (-1: any) that satisfies `condition`."""

    table: str
    after_version: int
    condition: CommitCondition
    storage_conn_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, which are equal for every spelling of the table's address."""
        request = wait_request(self.table, self.condition, self.storage_conn_id)
        return {**request, "after_version": self.after_version}


def wait_request(table: str, condition: CommitCondition, storage_conn_id: str | None) -> dict[str, Any]:
    """Return a wait as plain JSON values, with the table's normalised address.

    Raises:
        InvalidTableAddressError: the address is invalid.
    """
    return {"table": asset_uri(table), "storage_conn_id": storage_conn_id, **condition.as_dict()}


def convert_after_version(after_version: object) -> int | None:
    """Return the version after which commits match; None if the parameter is None.

    Raises:
        InvalidRequestError: the value is neither a version nor -1.
    """
    version: int | None = convert_value("after_version", after_version, int | None)
    if version is not None and version < -1:
        raise InvalidRequestError(
            f"after_version is {version}, not a version.", remedy="Give a version, or -1 for any."
        )
    return version


def _with_utc_times(made_by: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a run as texts, with times in UTC as commits have them.

    Raises:
        InvalidRequestError: a time is not an ISO 8601 text.
    """
    texts: dict[str, str] = convert_value("made_by", made_by, Mapping[str, str])
    for name in texts.keys() & MADE_BY_TIMES:
        time = parse_time(texts[name])
        if time is None:
            raise InvalidRequestError(
                f"made_by.{name} is {texts[name]!r}, which is not a time.",
                remedy="Give ISO 8601, such as '{{ data_interval_start.isoformat() }}'.",
            )
        texts[name] = time.isoformat()
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """The outcome of one poll.

    - `position`: the last position that was read
    - `xcom`: the description of the commit that satisfies the condition, or None
    - `answered`: whether storage answered
    """

    position: LogPosition
    xcom: dict[str, Any] | None = None
    answered: bool = True


def poll_table(wait: VersionWait, position: LogPosition, hook: DeltaHook) -> Poll:
    """Read the commits after `position` through a hook of the table. Blocks until storage answers or fails.

    Raises:
        DeltaLiteError: another poll would fail too, because of the log, the address or the permissions.
        AirflowNotFoundException: Airflow has no such connection, or its connection store failed.
    """
    from deltalite import watch  # loads pyarrow, which DAG parsing must not load

    try:
        root, result = hook.ask(lambda store: (store.root, watch.poll(store, position, wait.condition)))
    except StorageError as error:
        if not error.retryable:
            raise
        _log.warning("Could not poll %s; retrying at the next poll: %s", wait.table, error)
        return Poll(position=position, answered=False)
    if result.match is None:
        return Poll(position=result.position)
    _log.info("%s has version %s, committed by %s.", root, result.match.version, result.match.operation)
    xcom = _as_xcom(wait, root, result.match, recreated=result.position.recreated)
    return Poll(position=result.position, xcom=xcom)


def _as_xcom(wait: VersionWait, root: str, commit: CommitSummary, *, recreated: bool) -> dict[str, Any]:
    return {
        "table": root,
        "from_version": 0 if recreated else wait.after_version + 1,
        "version": commit.version,
        "after_version": wait.after_version,
        "reset": recreated,
        "operation": commit.operation,
        "timestamp": commit.timestamp_ms,
    }


def pause_seconds(poll_interval: float, failed_polls: int) -> float:
    """Return the pause before the next poll.

    The pause doubles with each failed poll in a row, up to ten minutes. It is never shorter than `poll_interval`.
    """
    return max(poll_interval, min(_LONGEST_PAUSE_SECONDS, poll_interval * 2.0 ** min(failed_polls, 30)))
