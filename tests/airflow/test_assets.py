"""Assets of tables: one URI for all spellings of an address, and one form for the events of watchers and of tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset, AssetAlias

from airflow_provider_deltalite.assets.delta import asset_uri, delta_asset, delta_events, partition_values
from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from tests.support.airflow_versions import since_3_3

PAYLOAD = {
    "table": "/lake/orders",
    "table_id": "id",
    "from_version": 3,
    "version": 5,
    "operations": ["MERGE"],
    "data_changed": True,
    "commit_timestamp": 7,
    "reset": False,
    "gap": False,
    "partitions": ["day=2026-05-01"],
}
RESULT = {"table": "/lake/orders", "operation": "WRITE", "version": 6, "skipped": False, "timestamp": 9, "metrics": {}}


@pytest.mark.parametrize(
    ("uri", "spellings"),
    [
        ("file:///lake/orders", ["/lake/orders", "/lake/orders/", "file:/lake/orders", "file:///lake/./orders/"]),
        ("file:///lake/a%20%C3%BC%23", ["/lake/a ü#"]),
        ("s3://lake/orders", ["s3://lake/orders", "s3a://lake/orders/", "S3N://lake/orders"]),
        ("s3://lake/a%20%C3%BC", ["s3://lake/a ü"]),
        ("gs://lake/orders", ["gs://lake/orders", "gcs://lake/orders/"]),
        ("abfss://lake@acc.dfs.core.windows.net/o", ["abfs://lake@acc.dfs.core.windows.net/o/"]),
        ("hdfs://name:8020/o", ["hdfs://name:8020/o"]),
    ],
)
def test_a_table_has_one_uri_that_airflow_does_not_change(uri, spellings):
    for spelling in spellings:
        asset = delta_asset(spelling)
        assert (asset.name, asset.uri) == (uri, uri) == (asset_uri(spelling),) * 2
        assert asset.uri.isascii() and Asset(asset.uri).uri == uri


def test_an_invalid_address_is_rejected_when_the_dag_is_parsed():
    for table in ("", "{{ var.value.lake }}/orders", "s3://"):
        with pytest.raises(InvalidTableAddressError):
            delta_asset(table)


def test_a_watched_asset_is_the_same_asset_with_a_trigger():
    plain, watched = delta_asset("/lake/orders"), delta_asset("/lake/orders/", watch=True, operations=["MERGE"])
    assert (plain.name, plain.uri, plain.watchers) == (watched.name, watched.uri, [])
    (watcher,) = watched.watchers
    assert isinstance(watcher.trigger, DeltaTableTrigger)
    assert watcher.trigger.serialize()[1]["operations"] == ["MERGE"]
    with pytest.raises(InvalidRequestError, match="operations, poke_interval apply to a watched table only"):
        delta_asset("/lake/orders", poke_interval=3, operations=[])


def test_group_and_extra_are_passed_to_airflow():
    asset = delta_asset("/lake/orders", group="lake", extra={"owner": "sales"})
    assert (asset.group, asset.extra) == ("lake", {"owner": "sales"})
    assert delta_asset("/lake/orders").group == Asset("x").group


def context_with_events(*extras, asset=None):
    """The context of a DAG run that events of one asset started: one event for each of `extras`, in this order."""
    event_asset = delta_asset("/lake/orders") if asset is None else asset
    # Airflow passes events in no particular order, so the context has them in reverse.
    events = [SimpleNamespace(extra=extra, timestamp=datetime.fromtimestamp(n, UTC)) for n, extra in enumerate(extras)]
    return {"triggering_asset_events": TriggeringEvents({event_asset.uri: events[::-1]})}


class TriggeringEvents(dict):
    """A stand-in for Airflow's accessor of triggering events: only assets are keys."""

    def __getitem__(self, asset):
        assert isinstance(asset, Asset)
        return super().__getitem__(asset.uri)


def watcher_event(**changes):
    """The `extra` of an event that a watcher sent."""
    return {"from_trigger": True, "payload": {**PAYLOAD, **changes}}


def test_events_of_a_watcher_and_of_a_task_combine_to_one_range():
    events = delta_events(context_with_events(watcher_event(), RESULT), delta_asset("/lake/orders"))
    assert [
        (event.from_version, event.version, event.operations, event.commit_timestamp, event.watched) for event in events
    ] == [
        (3, 5, ("MERGE",), 7, True),
        (6, 6, ("WRITE",), 9, False),
    ]
    assert (events.from_version, events.version, events.operations) == (3, 6, ("MERGE", "WRITE"))
    assert (events.reset, events.gap) == (False, False)
    assert (events[0].table_id, events[0].data_changed, events[1].table) == ("id", True, "/lake/orders")


def test_the_partitions_of_events_are_combined_if_every_event_names_them():
    june_event = {**RESULT, "partitions": ["day=2026-06-01", "day=2026-05-01"]}
    assert delta_events(context_with_events(watcher_event(), june_event), "/lake/orders").partitions == (
        "day=2026-05-01",
        "day=2026-06-01",
    )
    for other_event in (RESULT, {**RESULT, "partitions": None}, watcher_event(partitions=None)):
        assert delta_events(context_with_events(watcher_event(), other_event), "/lake/orders").partitions is None
    assert delta_events(context_with_events(), "/lake/orders").partitions is None


def test_a_partition_key_parses_to_column_values():
    assert partition_values("day=2026-05-01/name=a%2Fb") == {"day": "2026-05-01", "name": "a/b"}
    assert partition_values("day=__HIVE_DEFAULT_PARTITION__") == {"day": None}


def test_a_table_address_is_accepted_as_an_asset():
    assert delta_events(context_with_events(watcher_event()), "file:/lake/orders").version == 5


def test_events_before_a_recreation_of_the_table_are_left_out():
    recreation = watcher_event(from_version=0, version=1, reset=True, gap=True)
    events = delta_events(
        context_with_events(watcher_event(), RESULT, recreation, {**RESULT, "version": 2}), "/lake/orders"
    )
    assert (events.from_version, events.version, events.reset, events.gap, len(events)) == (0, 2, True, True, 2)


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"triggering_asset_events": None},
        context_with_events(),
        context_with_events(None),
        context_with_events({"by": "hand"}, {"payload": {"other": 1}}, {**RESULT, "version": None}),
        context_with_events(watcher_event(), asset=delta_asset("/lake/customers")),
    ],
    ids=["no key", "none", "no events", "no extra", "events of other senders", "another table"],
)
def test_a_run_without_an_event_of_the_table_has_no_range(context):
    events = delta_events(context, "/lake/orders")
    assert (list(events), events.from_version, events.version, events.operations) == ([], None, None, ())


@since_3_3
def test_events_of_an_alias_are_read_by_the_alias():
    context = {"triggering_asset_events": {AssetAlias("lake"): [SimpleNamespace(extra=RESULT, timestamp=0)]}}
    assert delta_events(context, AssetAlias("lake")).version == 6
