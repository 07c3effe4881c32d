"""Folders of Parquet files, and their conversion without Spark, for tests."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from deltalite import DeltaTable
from deltalite.commands.convert import convert
from deltalite.requests import ConvertRequest, RunIdentity
from tests.support.tables import commit

RUN = RunIdentity(app_id="airflow/d/convert/-1/r")


def write_parquet(folder, name, columns, **options):
    """Write a Parquet file; lists become Arrow arrays of 64-bit integers, floats or texts."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file, **options)
    return file


def converted(folder, **options):
    return convert(None, ConvertRequest(table=str(folder), **options))


def rows(folder, *columns):
    table = DeltaTable(str(folder)).to_arrow().select(list(columns))
    return in_order(table)


def in_order(table):
    row_tuples = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(row_tuples, key=lambda row: [(value is not None, value) for value in row])


def by_delta_rs(folder, *columns):
    table = deltalake.DeltaTable(str(folder))
    names = ", ".join(f'"{column}"' for column in columns)
    answer = pa.table(deltalake.QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t").read_all())
    return in_order(answer)


def stats(folder):
    return {add["path"]: json.loads(add["stats"]) for add in commit(folder, 0)["add"]}


def assert_untouched(folder):
    assert not (folder / "_delta_log").exists()
