"""The golden tables: their names, the expected outcome of reading them, and how tests compare rows."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa

from tests.support.selection import cover, sampled

CHECKOUT = Path(__file__).resolve().parents[2]
# pytest collects the tests even if this folder is missing. `table_names` then returns a placeholder, and the fixture
# `golden` reports the missing folder.
GOLDEN = Path(os.environ.get("DELTALITE_GOLDEN") or CHECKOUT.parent / "shared" / "golden")
MANIFEST = GOLDEN / "manifest.jsonl"
_MANIFEST_LINES = MANIFEST.read_text().splitlines() if MANIFEST.is_file() else []
ENTRIES = {entry["name"]: entry for entry in map(json.loads, _MANIFEST_LINES)}
EXPECTED_OUTCOMES = {name: entry["expect"] for name, entry in ENTRIES.items()}
# A feature in the manifest affects the replay of a log if its name begins with one of these prefixes.
REPLAY_FEATURES = ("checkpoint:", "dv:")
MANY_ROWS = 50_000


def table_names(*outcomes):
    """The names of the tables that have one of these expected outcomes in the manifest, sorted.

    Returns a placeholder if no table matches.
    """
    return sorted(name for name, expect in EXPECTED_OUTCOMES.items() if expect in outcomes) or [
        "golden tables are missing"
    ]


def one_per_feature(*outcomes, prefixes=("",), at_most=None, without=()):
    """All tables with these outcomes, for `parametrize`. `make test` runs a sample that has each feature.

    Args:
        outcomes: expected outcomes in the manifest.
        prefixes: only features whose names begin with one of these count.
        at_most: the largest size of the sample. If it is too small for all features, the sample has most of them.
        without: the names of tables to leave out.
    """
    all_names = [name for name in table_names(*outcomes) if name not in without]
    entries = [ENTRIES[name] for name in all_names if name in ENTRIES]
    features = {e["name"]: [f for f in e["features"] if f.startswith(tuple(prefixes))] for e in entries}
    sample = cover(features, {e["name"]: e["size_bytes"] for e in entries})[:at_most]
    return sampled(all_names, sample) if entries else all_names


def expected_metadata(golden, name):
    """The protocol, the version and other facts that the reader must find in a table."""
    return json.loads((golden / "expected" / name / "meta.json").read_text())


# The readable tables that this release does not write, and the part of the error that names the reason.
UNWRITABLE = {
    "delta-golden/collations-table": "collations",
    "delta-kernel-rs/void-column": "columns of type void",
    "delta-rs/table_with_liquid_clustering": "liquid",
    "gen-deltalake/unknown_writer_feature": "labPaint",
    "trino/deltalake/uniform_hudi": "inCommitTimestamp-preview",
}

# The tables with the outcome `must-refuse` that are rejected for their reader version. All others with this outcome
# have one unsupported reader feature.
UNSUPPORTED_VERSIONS = {
    "delta-golden/deltalog-invalid-protocol-version": "reader version 99",
    "delta-rs/simple_table_features": "reader version 5",
}


def unsupported_part(golden, name):
    """The text that the error for a `must-refuse` table must contain: its reader version or its feature."""
    if name in UNSUPPORTED_VERSIONS:
        return UNSUPPORTED_VERSIONS[name]
    [feature] = expected_metadata(golden, name)["reader_features"]
    return feature


def plain_values(column):
    """The Python values of a column. Times and dates are numbers, because some lie outside the years of `datetime`."""
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_date(data_type):
        return column.cast(pa.int32()).to_pylist()
    return (
        [with_sorted_maps(value, data_type) for value in column.to_pylist()]
        if pa.types.is_nested(data_type)
        else column.to_pylist()
    )


def with_sorted_maps(value, data_type):
    """A nested value with each map as a sorted list of pairs, because the order of a map's entries has no meaning."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        key_type, item_type = data_type.key_type, data_type.item_type
        return sorted(((with_sorted_maps(k, key_type), with_sorted_maps(v, item_type)) for k, v in value), key=repr)
    if pa.types.is_list(data_type):
        return [with_sorted_maps(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        return {f.name: with_sorted_maps(value[f.name], f.type) for f in data_type}
    return value


def rows_of(table):
    """The rows as a multiset of their `repr`, which distinguishes -0.0 from 0.0 and makes NaN equal to itself."""
    columns = [plain_values(table[name]) for name in sorted(table.column_names)]
    return Counter(map(repr, zip(*columns, strict=True)))


def assert_same_rows(actual, expected):
    """Assert that two Arrow tables have the same columns and the same rows, in any order.

    The types of nested columns and of null columns may differ.
    """
    assert actual.column_names == expected.column_names
    flat_names = [f.name for f in expected.schema if not pa.types.is_nested(f.type) and not pa.types.is_null(f.type)]
    assert [actual.schema.field(n).type for n in flat_names] == [expected.schema.field(n).type for n in flat_names]
    assert actual.num_rows == expected.num_rows
    # Golden tables of this size hold only decimals. Arrow compares them a hundred times faster than `rows_of`.
    if actual.num_rows > MANY_ROWS:
        assert flat_names == expected.column_names
        order = [(name, "ascending") for name in flat_names]
        assert actual.sort_by(order).cast(expected.schema).equals(expected.sort_by(order))
        return
    assert rows_of(actual) == rows_of(expected)
