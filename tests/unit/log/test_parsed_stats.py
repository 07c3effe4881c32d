"""Statistics from a checkpoint's struct equal the statistics in JSON, or lack a value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.log.file_table import LISTED_COLUMNS
from deltalite.log.parsed_stats import stats_of_json, stats_texts
from deltalite.log.state import LogState
from deltalite.protocol.file_names import checkpoint_name
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, add, commit_actions, create, load, new_store
from tests.unit.logs import to_parquet

NOON = datetime(2026, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)
YEAR_10000_US = 253_402_300_800_000_000


def text_of(value, kind):
    """The `minValues` of a column `x` that holds `value`, as JSON text."""
    parsed = pa.array([{"minValues": {"x": value}}], pa.struct([("minValues", pa.struct([("x", kind)]))]))
    return stats_texts(pa.chunked_array([parsed])).to_pylist()[0]


@pytest.mark.parametrize(
    ("value", "kind", "bound"),
    [
        (2**62 + 1, pa.int64(), "4611686018427387905"),
        (-1, pa.int8(), "-1"),
        (0.1, pa.float64(), "0.1"),
        (float("nan"), pa.float64(), None),
        (float("inf"), pa.float32(), None),
        (Decimal(f"{10**19}.{10**17}"), pa.decimal128(38, 18), f"{10**19}.{10**17}"),
        (Decimal("1E-7"), pa.decimal128(10, 7), "0.0000001"),
        ('ü"\n', pa.string(), '"ü\\"\\n"'),
        (True, pa.bool_(), "true"),
        (b"x", pa.binary(), None),
        (None, pa.int64(), None),
        (date(2026, 1, 2), pa.date32(), '"2026-01-02"'),
        (date(1, 1, 1), pa.date32(), '"0001-01-01"'),
        (NOON, pa.timestamp("us", "UTC"), '"2026-01-01T12:00:00.123Z"'),
        (NOON.replace(microsecond=0), pa.timestamp("ms", "UTC"), '"2026-01-01T12:00:00.000Z"'),
        (NOON + timedelta(microseconds=4), pa.timestamp("us", "Europe/Berlin"), '"2026-01-01T12:00:00.123004Z"'),
        (NOON.replace(tzinfo=None), pa.timestamp("us"), '"2026-01-01T12:00:00.123"'),
        (datetime(1, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC"), '"0001-01-01T00:00:00.000Z"'),
        (YEAR_10000_US, pa.timestamp("us", "UTC"), None),
        (YEAR_10000_US - 1, pa.timestamp("us", "UTC"), '"9999-12-31T23:59:59.999999Z"'),
        ({"y": 1, "z": None}, pa.struct([("y", pa.int64()), ("z", pa.int64())]), '{"y":1}'),
        ([1], pa.list_(pa.int64()), None),
    ],
    ids=str,
)  # fmt: skip
def test_a_bound_is_converted_exactly_or_omitted(value, kind, bound):
    expected = "{}" if bound is None else '{"x":' + bound + "}"
    assert text_of(value, kind) == '{"minValues":' + expected + "}"


def test_a_time_without_a_zone_is_in_utc_if_the_caller_lists_its_column():
    kind = pa.struct([("maxValues", pa.struct([("x", pa.timestamp("us")), ("y", pa.timestamp("us"))]))])
    noon = NOON.replace(tzinfo=None)
    parsed = pa.chunked_array([pa.array([{"maxValues": {"x": noon, "y": noon}}], kind)])
    assert json.loads(stats_texts(parsed, {"maxValues.x"})[0].as_py())["maxValues"] == {
        "x": "2026-01-01T12:00:00.123Z",
        "y": "2026-01-01T12:00:00.123",
    }


def test_absent_statistics_stay_absent_and_unknown_statistics_are_omitted():
    kind = pa.struct([("numRecords", pa.int64()), ("tightBounds", pa.bool_()), ("novelty", pa.int64())])
    parsed = [None, {"numRecords": 3, "tightBounds": False, "novelty": 1}, {}]
    assert stats_texts(pa.chunked_array([pa.array(parsed, kind)])).to_pylist() == [
        None,
        '{"numRecords":3,"tightBounds":false}',
        "{}",
    ]
    assert stats_texts(pa.chunked_array([], kind)).to_pylist() == []


@pytest.mark.parametrize(
    ("parsed", "text"),
    [
        (None, None),
        ("x", None),
        ({"numRecords": 1, "novelty": 2}, '{"numRecords":1}'),
        ({"minValues": {"a": 0.1, "b": {"c": 1.5, "d": 2}}}, '{"minValues":{"b":{"d":2}}}'),
        ({"nullCount": {"a": 3}}, '{"nullCount":{"a":3}}'),
    ],
)
def test_statistics_as_a_json_object_omit_bounds_that_may_be_rounded(parsed, text):
    assert stats_of_json(parsed) == text


def with_stats_parsed(add_body, *, has_json):
    """The body of an `add` with `stats_parsed`. Its `numRecords` is 100 higher than in the JSON, to tell them apart."""
    json_text = add_body["stats"]
    parsed = {"numRecords": json.loads(json_text)["numRecords"] + 100} if json_text else None
    return {**add_body, "stats": json_text if has_json else None, "stats_parsed": parsed}


def with_struct(data, paths_with_json):
    """A checkpoint with `add.stats_parsed`. Only the files in `paths_with_json` keep their `add.stats`."""
    rows = pq.read_table(pa.BufferReader(data))
    kind = pa.struct([*rows["add"].type, ("stats_parsed", pa.struct([("numRecords", pa.int64())]))])
    bodies = [
        None if body is None else with_stats_parsed(body, has_json=body["path"] in paths_with_json)
        for body in rows["add"].to_pylist()
    ]
    return to_parquet(rows.set_column(rows.schema.get_field_index("add"), "add", pa.array(bodies, kind)))


@pytest.mark.parametrize("paths_with_json", [{"a", "b", "c"}, {"a"}, set()])
def test_the_struct_replaces_missing_json_only(paths_with_json):
    files = [add("a", stats='{"numRecords":1}'), add("b", stats='{"numRecords":2}'), add("c")]
    store = create(new_store(), *files, configuration={"delta.checkpoint.writeStatsAsStruct": "false"})
    write_checkpoint(load(store), now_ms=NOON_MS)
    store.files[checkpoint_name(0)] = (with_struct(store.files[checkpoint_name(0)][0], paths_with_json), 0)
    commit_actions(store, add("d", stats='{"numRecords":4}'))
    stats_by_path = {row["path"]: row["stats"] for row in load(store).files.to_pylist()}
    blocks = load(store).file_blocks(["path", "stats"], max_rows=2)
    assert {row["path"]: row["stats"] for block in blocks for row in block.to_pylist()} == stats_by_path
    counts = {path: json.loads(stats)["numRecords"] if stats else None for path, stats in stats_by_path.items()}
    assert counts == {
        "a": 1 if "a" in paths_with_json else 101,
        "b": 2 if "b" in paths_with_json else 102,
        "c": None,
        "d": 4,
    }
    assert load(store).files_with(["path"]).num_rows == 4


@pytest.mark.parametrize(
    "name",
    [
        "delta-kernel-rs/v1-multi-part-struct-stats-only",
        "delta-kernel-rs/v2-json-sidecars-struct-stats-only",
        "delta-rs/delta-1.2.1-only-struct-stats",
        "trino/databricks73/pruning/parquet_struct_statistics",
    ],
)
def test_struct_and_json_statistics_of_spark_are_equal(golden, name):
    root = golden / "tables" / name
    files = LogState.open(LocalLogStore(str(root))).files(LISTED_COLUMNS)
    json_stats_by_path = {}
    for commit in sorted((root / "_delta_log").glob("0*[0-9].json")):
        for line in commit.read_text().splitlines():
            add_action = json.loads(line).get("add")
            if add_action:
                json_stats_by_path[add_action["path"]] = json.loads(add_action["stats"])
    assert files.num_rows
    for row in files.to_pylist():
        assert json.loads(row["stats"]) == json_stats_by_path[row["path"]]
