"""The golden tables: their names, the expected outcome of reading them, and how tests compare rows."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa

from tests.support.loops import cover, sampled

CHECKOUT = Path(__file__).resolve().parents[2]
# Tests are collected without this folder, too: `table_names` then has a placeholder, and the fixture `golden` reports
# the missing folder.
GOLDEN = Path(os.environ.get("DELTALITE_GOLDEN") or CHECKOUT.parent / "shared" / "golden")
MANIFEST = GOLDEN / "manifest.jsonl"
ENTRIES = {e["name"]: e for e in map(json.loads, MANIFEST.read_text().splitlines())} if MANIFEST.is_file() else {}
EXPECT = {name: entry["expect"] for name, entry in ENTRIES.items()}
# The prefixes of the features in the manifest that decide how a log is replayed.
REPLAY_FEATURES = ("checkpoint:", "dv:")
MANY_ROWS = 50_000


def table_names(*kinds):
    """The tables whose expected outcome is one of these kinds, sorted by name."""
    return sorted(name for name, expect in EXPECT.items() if expect in kinds) or ["golden tables are missing"]


def one_per_feature(*kinds, prefixes=("",), at_most=None, without=()):
    """Select a sample of the tables of these kinds that has each feature. The other tables run in the campaign only.

    Args:
        kinds: expected outcomes in the manifest.
        prefixes: a feature counts if its name begins with one of these.
        at_most: the largest size of the sample; it prefers tables with many features.
        without: names of tables to leave out.
    """
    all_names = [name for name in table_names(*kinds) if name not in without]
    entries = [ENTRIES[name] for name in all_names if name in ENTRIES]
    features = {e["name"]: [f for f in e["features"] if f.startswith(tuple(prefixes))] for e in entries}
    chosen = cover(features, {e["name"]: e["size_bytes"] for e in entries})[:at_most]
    return sampled(all_names, chosen) if entries else all_names


def meta_of(golden, name):
    return json.loads((golden / "expected" / name / "meta.json").read_text())


# The readable tables that this release does not write, and the part of the error that names the reason.
UNWRITABLE = {
    "delta-golden/collations-table": "collations",
    "delta-kernel-rs/void-column": "columns of type void",
    "delta-rs/table_with_liquid_clustering": "liquid",
    "gen-deltalake/unknown_writer_feature": "labPaint",
    "trino/deltalake/uniform_hudi": "inCommitTimestamp-preview",
}

# Tables that are refused for their reader version. Each of the others has one unsupported reader feature.
UNSUPPORTED_VERSIONS = {
    "delta-golden/deltalog-invalid-protocol-version": "reader version 99",
    "delta-rs/simple_table_features": "reader version 5",
}


def unsupported_part(golden, name):
    """The version or the feature that the error for a table of the kind `must-refuse` must name."""
    if name in UNSUPPORTED_VERSIONS:
        return UNSUPPORTED_VERSIONS[name]
    [feature] = meta_of(golden, name)["reader_features"]
    return feature


def plain_values(column):
    """The Python values of a column. Times are numbers, since some exceed Python's calendar; maps are sorted."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).to_pylist()
    return (
        [with_sorted_maps(value, kind) for value in column.to_pylist()]
        if pa.types.is_nested(kind)
        else column.to_pylist()
    )


def with_sorted_maps(value, kind):
    if value is None:
        return None
    if pa.types.is_map(kind):
        return sorted(
            ((with_sorted_maps(k, kind.key_type), with_sorted_maps(v, kind.item_type)) for k, v in value), key=repr
        )
    if pa.types.is_list(kind):
        return [with_sorted_maps(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {f.name: with_sorted_maps(value[f.name], f.type) for f in kind}
    return value


def rows_of(table):
    """The rows as a multiset of their `repr`, which distinguishes -0.0 from 0.0 and makes NaN equal to itself."""
    columns = [plain_values(table[name]) for name in sorted(table.column_names)]
    return Counter(map(repr, zip(*columns, strict=True)))


def assert_same_rows(actual, expected):
    assert actual.column_names == expected.column_names
    simple = [f.name for f in expected.schema if not pa.types.is_nested(f.type) and not pa.types.is_null(f.type)]
    assert [actual.schema.field(n).type for n in simple] == [expected.schema.field(n).type for n in simple]
    assert actual.num_rows == expected.num_rows
    if actual.num_rows > MANY_ROWS:  # such tables hold only decimals, which Arrow compares a hundred times faster
        order = [(n, "ascending") for n in simple]
        assert simple == expected.column_names and actual.sort_by(order).cast(expected.schema).equals(
            expected.sort_by(order)
        )
        return
    assert rows_of(actual) == rows_of(expected)
