"""Random events, in any order and any batches, give the rows of a model.

A batch has events of many keys, so one test covers many histories. After each batch, the tests compare the table with
the model for all events so far. There are late events, repeated events, deletes, and events after a delete of the key.
At the end, the history must be the same table as the history from one batch.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.support.properties import FEED, VECTORS
from tests.support.scd import (
    EVENT_OPTIONS,
    Event,
    apply_rows,
    model_of_history,
    model_of_newest,
    query_of,
    visible_rows,
)
from tests.support.tables import delta_rs_rows, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

KEYS, SEQUENCES = 80, 9
CAMPAIGN_SEEDS = [pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 13)]


def random_events(random: Random) -> list[Event]:
    """Events of many keys. Few values occur, so that many events change nothing."""
    events = []
    for key in range(KEYS):
        for sequence in random.sample(range(1, SEQUENCES + 1), random.randint(1, SEQUENCES - 2)):
            if random.random() < 0.25:
                events.append(Event(key, sequence, None, None, deletes=True))
            else:
                events.append(Event(key, sequence, random.choice(["a", "b", None]), random.choice(["x", "y", None])))
    return events


def random_batches(random: Random, events: list[Event]) -> list[list[Event]]:
    """Up to four batches of the events, each in random order. An event may be in two batches, or in one batch twice."""
    batches: list[list[Event]] = [[] for _ in range(random.randint(2, 4))]
    for event in events:
        for batch in random.choices(batches, k=random.choice([1, 1, 1, 2])):
            batch.append(event)
    for batch in batches:
        random.shuffle(batch)
    return [batch for batch in batches if batch]


def random_options(random: Random) -> dict:
    return {**EVENT_OPTIONS, "properties": random.choice([FEED, FEED | VECTORS])}


@pytest.mark.parametrize("seed", [0, *CAMPAIGN_SEEDS])
def test_the_history_does_not_depend_on_the_order_or_the_batches_of_events(spark, tmp_path, seed):
    random = Random(seed)
    events, options = random_events(random), random_options(random) | {"track": ("name",)}
    seen: list[Event] = []
    for batch in random_batches(random, events):
        result = apply_rows(spark, tmp_path / "t", query_of(batch), **options)
        added = set(batch) - set(seen)
        seen += batch
        assert visible_rows(tmp_path / "t") == model_of_history(seen)
        metrics = result.metrics
        assert metrics["numSourceRows"] == len(batch) == len(added) + metrics["numDuplicateRows"]
        assert metrics["numKeys"] == len({event.key for event in batch})
    apply_rows(spark, tmp_path / "one batch", query_of(events), **options)
    assert rows(tmp_path / "t") == rows(tmp_path / "one batch")
    assert len(delta_rs_rows(tmp_path / "t")) == len(model_of_history(events))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [0, *CAMPAIGN_SEEDS])
def test_the_newest_rows_do_not_depend_on_the_order_or_the_batches_of_events(spark, tmp_path, seed):
    random = Random(seed)
    events, options = random_events(random), random_options(random) | {"scd_type": 1}
    seen: list[Event] = []
    for batch in random_batches(random, events):
        newest_sequences = {event.key: event.sequence for event in sorted(seen, key=lambda e: e.sequence)}
        late_events = {event for event in set(batch) if event.sequence < newest_sequences.get(event.key, 0)}
        result = apply_rows(spark, tmp_path / "t", query_of(batch), **options)
        seen += batch
        assert rows(tmp_path / "t") == model_of_newest(seen)
        assert result.metrics["numLateRows"] == len(late_events)
