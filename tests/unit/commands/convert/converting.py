"""Folders of Parquet files, and their conversion without Spark, for tests."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite import DeltaTable
from deltalite.commands.convert import convert
from deltalite.requests import ConvertRequest, RunIdentity
from tests.support.tables import actions_of, delta_rs_arrow

RUN_IDENTITY = RunIdentity(app_id="airflow/d/convert/-1/r")


def write_parquet(folder, name, columns, **options):
    """Write a Parquet file. Lists become Arrow arrays of 64-bit integers, floats or texts."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file, **options)
    return file


def convert_folder(folder, **options):
    return convert(None, ConvertRequest(table=str(folder), **options))


def rows(folder, *columns):
    """The rows of a table as tuples of these columns, in order."""
    return sorted_rows(DeltaTable(str(folder)).to_arrow().select(list(columns)))


def sorted_rows(table):
    row_tuples = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(row_tuples, key=lambda row: [(value is not None, value) for value in row])


def rows_by_delta_rs(folder, *columns):
    """The rows that delta-rs reads from a table, as tuples of these columns, in order."""
    return sorted_rows(delta_rs_arrow(folder).select(list(columns)))


def stats_by_path(folder):
    """The statistics of each file that version 0 adds."""
    return {add["path"]: json.loads(add["stats"]) for add in actions_of(folder, 0)["add"]}


def assert_untouched(folder):
    assert not (folder / "_delta_log").exists()
