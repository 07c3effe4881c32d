"""A watcher reports polls, failures and its lag as metrics, and logs an error that repeats at growing intervals."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite import watcher_health
from airflow_provider_deltalite.watcher_health import WatcherHealth
from deltalite import watch
from deltalite.errors import StorageError
from tests.airflow.watching import AssetStateStore, RunningTrigger, trigger, wait_until, wait_until_started

pytestmark = pytest.mark.usefixtures("events_are_stored_at_once")


@pytest.fixture
def metrics(monkeypatch):
    """The metrics that a watcher reported, each as (kind, name, value, asset). The kinds are `incr` and `gauge`."""
    reported_metrics = []

    def recording_metric(kind):
        return lambda name, value=1, *, tags: reported_metrics.append(
            (kind, name.rpartition(".")[2], value, tags["asset"])
        )

    monkeypatch.setattr(watcher_health, "_metrics_function", recording_metric)
    return reported_metrics


async def test_polls_failures_and_lag_are_metrics_of_the_asset(table, metrics, monkeypatch):
    table.create()
    follow, failures = watch.follow, iter([StorageError("timed out", remedy="Wait.")])

    def fail_at_the_first_call(*arguments):
        if (error := next(failures, None)) is not None:
            raise error
        return follow(*arguments)

    monkeypatch.setattr(watch, "follow", fail_at_the_first_call)
    store = AssetStateStore()
    async with RunningTrigger(trigger(table, store)) as watching:
        await wait_until_started(store)
        await wait_until(lambda: sum(name == "polls" for _, name, _, _ in metrics) >= 5)
        table.commit(1, table.add())
        await watching.next_event()
    asset = f"file://{table}"
    for expected in (("incr", "polls", 1), ("incr", "failures", 1), ("gauge", "lag_versions", 1)):
        assert (*expected, asset) in metrics


def test_an_error_that_repeats_is_logged_at_growing_intervals_with_the_name_of_the_asset(metrics, caplog):
    caplog.set_level("INFO")
    health = WatcherHealth("s3://lake/orders")
    assert [health.count_failure("read the log", ValueError("no")) for _ in range(9)] == list(range(1, 10))
    assert [(record.levelname, record.args[2]) for record in caplog.records] == [
        ("WARNING", "1 failure"),
        ("ERROR", "2 failures"),
        ("ERROR", "4 failures"),
        ("ERROR", "8 failures"),
    ]
    assert caplog.text.count("Could not read the log for the watcher of s3://lake/orders") == 4
    health.reset_failures()
    assert "Watching s3://lake/orders again after 9 failures." in caplog.text
    health.count_failure("read the log", ValueError("no"))
    assert "1 failure in a row" in caplog.messages[-1]
    assert len(metrics) == 10


def test_metrics_that_fail_do_not_end_a_watcher(monkeypatch):
    def fail(_kind):
        raise ConnectionError("no answer")

    monkeypatch.setattr(watcher_health, "_metrics_function", fail)
    WatcherHealth("a").count_poll()


def test_the_metrics_functions_of_airflow_accept_a_name_a_value_and_tags():
    for method in ("incr", "gauge"):
        watcher_health._metrics_function(method)("deltalite.test", 1, tags={"asset": "a"})


def test_an_error_is_logged_without_the_secrets_that_it_quotes(caplog, metrics):
    WatcherHealth("orders").count_failure("read the log", RuntimeError("https://lake/x?sv=1&sig=planted-1"))
    assert "sig=***" in caplog.text and "planted" not in caplog.text
