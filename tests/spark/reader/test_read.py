"""`read` and `changes`: options of Delta's reader, predicates that choose files, and the change data feed."""

from __future__ import annotations

import datetime as dt
import json
import os
import re

import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.errors import (
    ChangeFeedUnavailableError,
    InvalidRequestError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.requests import Source
from tests.support.golden import rows_of, table_names
from tests.support.tables import (
    rows,
    schema_json,
    sorted_rows,
    values,
    write_data_file,
    write_foreign_table,
    write_rows,
)
from tests.support.vectors import inline_vector

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def versioned_table(spark, tmp_path_factory):
    """A table with three versions, at 12:00, 13:00 and 14:00. Each version appends one row."""
    table = tmp_path_factory.mktemp("read") / "t"
    for n in range(3):
        write_rows(spark, table, values("id, day", f"{n}, 'd{n}'"), partition_by=("day",))
        moment = (NOON_MS + n * HOUR_MS) / 1000
        os.utime(table / commit_name(n), (moment, moment))
    return table


def ids(frame):
    return sorted(row.id for row in frame.collect())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2]),
        ({"versionAsOf": 1}, [0, 1]),
        ({"VERSIONASOF": " 0 "}, [0]),
        ({"timestampAsOf": "2026-01-01 13:30:00"}, [0, 1]),
        ({"timestampasof": "2026-01-01T14:30:00+02:00"}, [0]),
        ({"timestampAsOf": dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)}, [0]),
        ({"readChangeFeed": "false", "versionAsOf": "1"}, [0, 1]),
    ],
)
def test_options_choose_a_version(spark, versioned_table, options, expected):
    assert ids(delta.read(spark, str(versioned_table), options=options)) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"options": {"mergeSchema": "true"}}, "'mergeSchema' is not known.*versionAsOf"),
        ({"options": {"versionAsOf": 1, "versionasof": 1}}, "versionAsOf and versionasof mean the same"),
        ({"options": {"readChangeFeed": "true", "readChangeData": "true"}}, "mean the same"),
        ({"options": {"versionAsOf": 1, "timestampAsOf": "2026-01-01"}}, "versionAsOf and timestampAsOf"),
        ({"options": {"versionAsOf": "-1"}}, "versionAsOf is '-1'"),
        ({"options": {"versionAsOf": "1.0"}}, "versionAsOf is '1.0'"),
        ({"options": {"versionAsOf": True}}, "versionAsOf is True"),
        ({"options": {"timestampAsOf": "yesterday"}}, "timestampAsOf cannot be used.*yesterday"),
        ({"options": {"startingVersion": 0}}, "startingVersion needs readChangeFeed"),
        ({"options": {"endingTimestamp": "2026-01-01"}}, "endingTimestamp needs readChangeFeed"),
        ({"options": {"readChangeFeed": "yes"}}, "readChangeFeed is 'yes'"),
        ({"options": {"readChangeFeed": "true"}}, "needs the start of the range"),
        ({"options": {"readChangeFeed": True, "endingVersion": 1}}, "needs the start of the range"),
        ({"options": {"readChangeFeed": True, "startingVersion": "latest"}}, "startingVersion is 'latest'"),
        ({"options": {"readChangeFeed": True, "startingVersion": 2, "endingVersion": 1}}, "2 is later than .* 1"),
        (
            {"options": {"readChangeFeed": True, "startingVersion": 0, "startingTimestamp": "2026-01-01"}},
            "startingVersion and startingTimestamp",
        ),
        (
            {"options": {"readChangeFeed": True, "startingVersion": 0, "versionAsOf": 1}},
            "versionAsOf and readChangeFeed",
        ),
        (
            {"options": {"readChangeFeed": True, "startingVersion": 0}, "version_as_of": 1},
            "together with the option readChangeFeed",
        ),
        ({"options": {"versionAsOf": 1}, "version_as_of": 1}, "version_as_of is set twice"),
        ({"options": {"versionAsOf": 1}, "timestamp_as_of": "2026-01-01"}, "more than one version or time"),
        ({"where": "nobody = 1"}, "where is not a predicate on this table.*nobody"),
        ({"where": "rand() > 0.5"}, "where is not deterministic"),
    ],
)
def test_an_invalid_option_or_combination_of_arguments_is_rejected(spark, versioned_table, arguments, message):
    with pytest.raises(InvalidRequestError, match=message):
        delta.read(spark, str(versioned_table), **arguments)


@pytest.mark.parametrize("suffix", ["@v1", "@20260101130000000"])
def test_a_version_in_the_path_cannot_be_combined_with_another_version_or_the_change_feed(
    spark, versioned_table, suffix
):
    assert ids(delta.read(spark, f"{versioned_table}{suffix}")) == [0, 1]
    for arguments in ({"version_as_of": 1}, {"options": {"versionAsOf": 1}}, {"timestamp_as_of": "2026-01-01"}):
        with pytest.raises(InvalidRequestError, match="more than one version or time"):
            delta.read(spark, f"{versioned_table}{suffix}", **arguments)
    with pytest.raises(InvalidRequestError, match="names one version"):
        delta.read(spark, f"{versioned_table}{suffix}", options={"readChangeFeed": True, "startingVersion": 0})
    with pytest.raises(InvalidRequestError, match="names one version"):
        delta.changes(spark, f"{versioned_table}{suffix}", 0)


@pytest.mark.smoke
def test_where_skips_files_by_the_log_and_filters_the_remaining_rows(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = []
    for n in range(4):
        stats = {"numRecords": 2, "minValues": {"id": 10 * n}, "maxValues": {"id": 10 * n + 1}, "nullCount": {"id": 0}}
        file = write_data_file(table, f"x/{n}.parquet", id=[10 * n, 10 * n + 1])
        adds.append(file | {"partitionValues": {"day": f"d{n % 2}"}, "stats": json.dumps(stats)})
    write_foreign_table(table, schema_json(("id", "long"), ("day", "string")), adds, ("day",))

    def read_ids_and_files(where):
        frame = delta.read(spark, str(table), where=where)
        return ids(frame), {os.path.basename(file) for file in frame.inputFiles()}

    assert read_ids_and_files("id = 21") == ([21], {"2.parquet"})
    assert read_ids_and_files("day = 'd1'") == ([10, 11, 30, 31], {"1.parquet", "3.parquet"})
    assert read_ids_and_files("day = 'd1' AND id < 11") == ([10], {"1.parquet"})
    assert read_ids_and_files("id > 100") == ([], set())
    assert read_ids_and_files("length(concat(day, id)) = 3") == ([0, 1], {f"{n}.parquet" for n in range(4)})


def test_a_float_literal_matches_the_32_bit_values_and_bounds_of_a_column(spark, tmp_path):
    table = tmp_path / "t"
    query = values("f, s, p", "0.1F, named_struct('f', 0.1F), 0.1F", "5F, named_struct('f', 5F), 5F")
    write_rows(spark, table, query, partition_by=("p",))
    for where in (
        "f = 0.1F", "f <= 0.1F", "f IN (0.1F, 7F)", "f = float('0.1')", "NOT f > 0.1F", "s.f = 0.1F", "p = 0.1F",
        "p <= 0.1F", "f < 0.2",
    ):  # fmt: skip
        assert [round(row.f, 3) for row in delta.read(spark, str(table), where=where).collect()] == [0.1], where
    write_rows(spark, table, "SELECT * FROM VALUES (0.1F, named_struct('f', 9F), 0.1F) AS (f, s, p)", mode="overwrite",
        replace_where="f = 0.1F")  # fmt: skip
    assert sorted(round(row.s.f) for row in delta.read(spark, str(table)).collect()) == [5, 9]


@pytest.mark.sample("DAY")
@pytest.mark.parametrize("logged_name", ["Day", "day", "DAY"])
def test_partition_values_are_read_if_the_log_spells_the_column_in_another_case(
    spark, tmp_path, relation_kind, logged_name
):
    table = tmp_path / "t"
    adds = [
        write_data_file(table, f"{day}.parquet", id=[n]) | {"partitionValues": {logged_name: day}}
        for n, day in enumerate(("mon", "tue"))
    ]
    adds.append(write_data_file(table, "none.parquet", id=[2]) | {"partitionValues": {}})
    write_foreign_table(table, schema_json(("id", "long"), ("Day", "string")), adds, ("Day",))
    expected = {(0, "mon"), (1, "tue"), (2, None)}
    python_table = DeltaTable(str(table))
    assert {(row.id, row.Day) for row in delta.read(spark, str(table)).collect()} == expected
    assert {(row["id"], row["Day"]) for row in python_table.to_arrow().to_pylist()} == expected
    conditions = (("day = 'mon'", ("day", "=", "mon"), [0]), ("day IS NULL", ("day", "is null"), [2]))
    for where, filters, expected_ids in conditions:
        assert ids(delta.read(spark, str(table), where=where)) == expected_ids
        assert python_table.to_arrow(filter=[filters])["id"].to_pylist() == expected_ids


@pytest.fixture
def feed_table(tmp_path):
    """A table with a change data feed and four versions.

    Version 0 inserts rows. Version 1 deletes three of them with a deletion vector. The vector of version 2 deletes
    another row and restores two. Version 3 updates a row, with a `cdc` file.
    """
    table = tmp_path / "feed"
    add = write_data_file(table, "1.parquet", id=list(range(130))) | {"partitionValues": {"p": "2026-01-01"}}
    write_foreign_table(
        table,
        schema_json(("id", "long"), ("p", "date")),
        [add],
        ("p",),
        features=("deletionVectors",),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    first_commit = table / commit_name(0)
    first_commit.write_text(
        first_commit.read_text().replace('"writerFeatures": [', '"writerFeatures": ["changeDataFeed", ')
    )
    previous_vector = None
    for version, deleted_positions in ((1, [0, 63, 64]), (2, [0, 65])):
        vector = inline_vector(deleted_positions)
        actions = [
            {"remove": {"path": add["path"], "dataChange": True, "deletionVector": previous_vector}},
            {"add": {"modificationTime": 0, "dataChange": True, **add, "deletionVector": vector}},
        ]
        (table / commit_name(version)).write_text("\n".join(map(json.dumps, actions)))
        previous_vector = vector
    change_file = write_data_file(
        table,
        "_change_data/1.parquet",
        pa.table({"id": [1, 1001], "_change_type": ["update_preimage", "update_postimage"]}),
    )
    actions = [
        {"cdc": change_file | {"partitionValues": {"p": "2026-01-01"}, "dataChange": False}},
        {"add": {**add, "path": "2.parquet", "modificationTime": 0, "dataChange": True}},
    ]
    (table / commit_name(3)).write_text("\n".join(map(json.dumps, actions)))
    for version in range(4):
        moment = (NOON_MS + version * HOUR_MS) / 1000
        os.utime(table / commit_name(version), (moment, moment))
    return table


CHANGES = [
    *((0, "insert", n) for n in range(130)),
    *((1, "delete", n) for n in (0, 63, 64)),
    (2, "delete", 65),
    *((2, "insert", n) for n in (63, 64)),
    (3, "update_preimage", 1),
    (3, "update_postimage", 1001),
]


def expected_changes(first, last):
    """(version, change type, id) of each change of the versions, both inclusive."""
    return sorted_rows(change for change in CHANGES if first <= change[0] <= last)


def changes_in(frame):
    return sorted_rows(frame.select("_commit_version", "_change_type", "id").collect())


@pytest.mark.sample("native")
def test_the_function_changes_returns_each_changed_row_with_its_type_version_and_time(spark, feed_table, relation_kind):
    frame = delta.changes(spark, str(feed_table), 0)
    assert frame.columns == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [frame.schema[n].dataType.simpleString() for n in range(1, 5)] == ["date", "string", "bigint", "timestamp"]
    assert changes_in(frame) == expected_changes(0, 3)
    moments = frame.selectExpr("p", "_commit_version", "unix_millis(_commit_timestamp)").distinct().collect()
    assert {tuple(row) for row in moments} == {(dt.date(2026, 1, 1), n, NOON_MS + n * HOUR_MS) for n in range(4)}
    assert changes_in(delta.changes(spark, str(feed_table), 1, 2)) == expected_changes(1, 2)
    assert changes_in(delta.changes(spark, str(feed_table), 3)) == expected_changes(3, 3)
    changes_without_spark = pa.Table.from_batches(list(DeltaTable(str(feed_table)).changes(from_version=0)))
    assert rows_of(frame.toArrow()) == rows_of(changes_without_spark)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": "1"}, (1, 3)),
        ({"startingVersion": 1, "endingVersion": "2"}, (1, 2)),
        ({"startingTimestamp": "2026-01-01T13:00:00Z"}, (1, 3)),
        ({"startingTimestamp": "2026-01-01T13:00:00.001Z"}, (2, 3)),
        ({"startingTimestamp": "2000-01-01", "endingTimestamp": "2026-01-01T13:59:00Z"}, (0, 1)),
        ({"startingVersion": 2, "endingTimestamp": "2026-06-01"}, (2, 3)),
    ],
)
def test_options_choose_a_range_of_changes(spark, feed_table, options, expected):
    frame = delta.read(spark, str(feed_table), options={"readChangeFeed": "true", **options})
    assert changes_in(frame) == expected_changes(*expected)


def test_changes_can_be_filtered_by_change_type_and_version(spark, feed_table):
    options = {"readChangeData": True, "startingVersion": 0}
    frame = delta.read(spark, str(feed_table), options=options, where="_change_type = 'delete' AND _commit_version > 1")
    assert changes_in(frame) == [(2, "delete", 65)]
    with pytest.raises(InvalidRequestError, match="where is not a predicate"):
        delta.read(spark, str(feed_table), options=options, where="_change = 'delete'")


def test_a_change_range_beyond_the_log_or_a_table_without_a_feed_is_an_error(spark, feed_table, versioned_table):
    with pytest.raises(TimestampOutOfRangeError, match="no version at or after"):
        delta.read(spark, str(feed_table), options={"readChangeFeed": "true", "startingTimestamp": "2026-06-01"})
    with pytest.raises(ChangeFeedUnavailableError):
        delta.changes(spark, str(versioned_table), 0)


def test_a_row_of_a_change_file_without_a_change_type_is_an_error(spark, feed_table):
    write_data_file(feed_table, "_change_data/1.parquet", pa.table({"id": [1, 2], "_change_type": ["insert", None]}))
    with pytest.raises(Exception, match="rows without _change_type"):
        delta.changes(spark, str(feed_table), 3).collect()


def test_a_write_can_read_changes_from_its_source(spark, feed_table, tmp_path):
    source = Source(format="delta", path=str(feed_table), changes_from_version=1, changes_to_version=2)
    query = "SELECT id, _change_type AS how, _commit_version AS version FROM source"
    write_rows(spark, tmp_path / "copy", query, sources={"source": source})
    assert sorted_rows((version, how, n) for n, how, version in rows(tmp_path / "copy")) == expected_changes(1, 2)


@pytest.mark.parametrize(
    "name", [name for name in table_names("read") if "cdf" in name or "cdc" in name] or table_names()
)
def test_spark_reads_the_changes_of_other_engines_as_the_python_reader_does(spark, golden, name):
    table = str(golden / "tables" / name)
    try:
        expected = pa.Table.from_batches(list(DeltaTable(table).changes(from_version=0)))
    except (ChangeFeedUnavailableError, VersionNotFoundError) as expected_error:
        with pytest.raises(type(expected_error), match=re.escape(expected_error.problem)):
            delta.changes(spark, table, 0)
        return
    assert rows_of(delta.changes(spark, table, 0).toArrow()) == rows_of(expected)
