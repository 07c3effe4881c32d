"""The status of a wait is logged at the start and every five minutes, with the time of the last answered poll."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.wait_status import WaitStatus
from airflow_provider_deltalite.waiting import VersionWait
from deltalite.conditions import CommitCondition
from deltalite.errors import StorageError


def version_wait(table, **condition) -> VersionWait:
    return VersionWait(table=str(table), after_version=0, condition=CommitCondition(**condition))


def test_the_status_is_logged_at_the_start_and_every_five_minutes(table, caplog):
    caplog.set_level("INFO")
    times = iter([0.0, 60.0, 299.0, 300.0, 301.0, 700.0])
    status = WaitStatus(version_wait(table), clock=lambda: next(times))
    for poll_number in range(6):
        if poll_number == 3:
            table.create()
        status.record_poll(DeltaHook(str(table)), answered=True)
    assert caplog.text.count("Waiting for a commit") == 3
    assert caplog.text.count("The table does not exist.") == 1
    assert caplog.text.count("The newest version is 0.") == 2


def test_the_status_says_that_the_storage_never_answered(table, monkeypatch):
    def fail(_question):
        raise StorageError("timed out", remedy="Wait.")

    hook = DeltaHook(str(table))
    monkeypatch.setattr(hook, "ask", fail)
    status = WaitStatus(version_wait(table))
    status.record_poll(hook, answered=False)
    assert "Could not read the newest version: timed out. Last answered poll: none." in status.text(hook)


def test_a_secret_in_a_condition_is_not_shown(table):
    status = WaitStatus(version_wait(table, partition={"token": "planted-value"}))
    assert "in partition token=***" in status.text(DeltaHook(str(table)))


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ({}, "that changes rows"),
        ({"data_change_only": False}, "of any kind"),
        ({"operations": ["WRITE", "MERGE"]}, "of operation WRITE or MERGE"),
        ({"partition": {"day": None}}, "that changes rows, in partition day=None"),
        ({"app_id": "a"}, "with app id a"),
        ({"made_by": {"dag_id": "d", "task_id": "t"}}, "made by dag_id=d, task_id=t"),
        ({"data_change_only": False, "exclude_app_ids": ["b/*"]}, "without app id b/*"),
    ],
)
def test_a_condition_is_shown_in_words(condition, text):
    assert str(CommitCondition(**condition)) == text
