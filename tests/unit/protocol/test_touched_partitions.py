"""Results name the partitions in which a commit changed rows, in Hive's spelling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.protocol.touched_partitions import (
    LONGEST_NAME,
    MAX_PARTITIONS,
    changed_partitions,
    partition_names,
    partition_values_of_name,
)
from deltalite.requests import RunIdentity
from deltalite.txn.find_run import find_run, result_of_version
from tests.unit.builders import add, commit_actions, create, metadata, new_store, remove, struct, txn

SCHEMA = struct(id="long", day="date", country="string")
BY_DAY = metadata(schema=SCHEMA, partition_columns=("day", "country"))
MAY = {"country": "DE", "day": "2026-05-01"}
JUNE = {"country": "DE", "day": "2026-06-01"}


def test_names_are_distinct_and_have_the_order_of_the_partition_columns():
    files = [add("a", partition_values=JUNE), add("b", partition_values=MAY), remove("c", partition_values=MAY)]
    assert changed_partitions(BY_DAY, files) == ("day=2026-05-01/country=DE", "day=2026-06-01/country=DE")


def test_a_file_without_a_data_change_does_not_count():
    files = [add("a", partition_values=MAY, data_change=False), remove("b", partition_values=JUNE, data_change=False)]
    assert changed_partitions(BY_DAY, files) == ()


def test_a_table_without_partitions_has_no_names():
    assert changed_partitions(metadata(), [add("a"), remove("b")]) == ()


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"day": None, "country": ""}, "day=__HIVE_DEFAULT_PARTITION__/country=__HIVE_DEFAULT_PARTITION__"),
        ({"day": "2026-05-01", "country": "a/b=c d"}, "day=2026-05-01/country=a%2Fb%3Dc d"),
    ],
)
def test_a_name_parses_to_its_values(values, name):
    assert partition_names(BY_DAY, [values]) == (name,)
    assert partition_values_of_name(name) == {column: value or None for column, value in values.items()}


@pytest.mark.parametrize("country", ["\ud800", "D\0E"])
def test_a_name_that_airflow_cannot_encode_drops_all_names(country):
    assert partition_names(BY_DAY, [MAY, {"day": "2026-05-01", "country": country}]) is None


def test_the_number_of_names_is_bounded():
    values = [{"day": "2026-05-01", "country": str(number)} for number in range(MAX_PARTITIONS + 1)]
    assert len(partition_names(BY_DAY, values[:-1])) == MAX_PARTITIONS
    assert partition_names(BY_DAY, values) is None


def test_a_name_that_is_too_long_for_airflow_drops_all_names():
    longest = LONGEST_NAME - len("day=2026-05-01/country=")
    assert partition_names(BY_DAY, [MAY | {"country": "x" * longest}]) is not None
    assert partition_names(BY_DAY, [MAY, MAY | {"country": "x" * (longest + 1)}]) is None


@pytest.mark.parametrize("values", [None, {"day": "2026-05-01"}, MAY | {"other": "x"}])
def test_values_that_do_not_match_the_partition_columns_drop_all_names(values):
    assert partition_names(BY_DAY, [MAY, values]) is None


def test_names_have_the_logical_columns_under_column_mapping():
    day = StructField("day", PrimitiveType("date"), True, {FIELD_ID: 1, PHYSICAL_NAME: "col-1"})
    mapped = metadata({"delta.columnMapping.mode": "name"}, StructType((day,)), partition_columns=("day",))
    assert partition_names(mapped, [{"col-1": "2026-05-01"}]) == ("day=2026-05-01",)


def test_the_result_of_an_earlier_commit_names_its_partitions():
    store = create(new_store(), schema=SCHEMA, partition_columns=("day", "country"))
    commit_actions(store, add("a", partition_values=MAY), txn("mine"))
    commit_actions(store, add("b", partition_values=JUNE))
    assert find_run(store, RunIdentity(app_id="mine")).partitions == ("day=2026-05-01/country=DE",)
    assert result_of_version(store, 1, "mine", BY_DAY).partitions == ("day=2026-05-01/country=DE",)
    assert result_of_version(store, 1, "mine").partitions is None


def test_the_result_of_a_commit_that_changes_the_partitioning_uses_its_new_metadata():
    store = create(new_store(), schema=SCHEMA)
    commit_actions(store, replace(BY_DAY, id="t"), add("a", partition_values=MAY), txn("mine"))
    assert find_run(store, RunIdentity(app_id="mine")).partitions == ("day=2026-05-01/country=DE",)
