"""Spark replays the logs of other engines: the result is that of the columnar replay."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal

import pytest

from deltalite.snapshot import Snapshot
from deltalite.spark.large_tables.distributed_replay import replayed_files, replayed_tombstones
from deltalite.storage.opening import open_store
from tests.support.golden import REPLAY_FEATURES, one_per_feature

pytestmark = [pytest.mark.interpreted, pytest.mark.usefixtures("one_task")]


def comparable_row(row):
    """A text that is equal for equal rows. The order of a map's entries and the JSON format do not change it."""
    fields = {**row, "partitionValues": sorted((row["partitionValues"] or {}).items())}
    fields["deletionVector"] = json.dumps(row["deletionVector"], sort_keys=True)
    fields["tags"] = sorted((row.get("tags") or {}).items())
    fields["stats"] = normalised_statistics(json.loads(row["stats"], parse_float=Decimal)) if row.get("stats") else None
    return repr(sorted(fields.items()))


def normalised_statistics(stats):
    """The statistics without the parts that only Spark writes: zeros after the milliseconds, NaN and infinities."""
    if isinstance(stats, dict):
        members = ((key, normalised_statistics(value)) for key, value in sorted(stats.items()))
        return {key: value for key, value in members if value not in ("NaN", "Infinity", "-Infinity")}
    return re.sub(r"(:\d\d\.\d{3})000(Z?)$", r"\1\2", stats) if isinstance(stats, str) else stats


def counted_rows(rows):
    """The rows as a multiset, regardless of their order."""
    return Counter(comparable_row(row) for row in rows)


@pytest.mark.parametrize("name", one_per_feature("read", "log-only", prefixes=REPLAY_FEATURES, at_most=1))
def test_sparks_replay_gives_the_files_and_tombstones_of_the_columnar_replay(spark, golden, name):
    snapshot = Snapshot.load(open_store(str(golden / "tables" / name)))
    for replay, columnar in ((replayed_files, snapshot.files_with()), (replayed_tombstones, snapshot.tombstones())):
        replayed = replay(spark, snapshot.store, snapshot.segment).collect()
        assert counted_rows(row.asDict(recursive=True) for row in replayed) == counted_rows(
            columnar.to_pylist(maps_as_pydicts="lossy")
        )
