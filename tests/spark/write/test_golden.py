"""Tables with features that other engines wrote accept their rows again as an append, and as a replacement."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.requests import Source
from tests.support.golden import rows_of
from tests.support.tables import write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop]

TABLES = {
    "delta-golden/data-reader-timestamp_ntz-id-mode": "columns by id, and times without a zone",
    "delta-golden/dv-with-columnmapping": "deleted rows in columns by name, in partitions",
    "delta-kernel-java/basic-dv-with-checkpoint": "deleted rows, from a checkpoint",
    "delta-kernel-rs/cdf-column-mapping-id-mode": "a change feed of columns by id",
    "gen-deltalake/check_constraints": "a constraint",
}


@pytest.mark.parametrize("name", TABLES, ids=TABLES.values())
def test_a_golden_table_is_appended_to_and_keeps_its_rows(spark, golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    before = DeltaTable(str(table))
    held, counted = rows_of(before.to_arrow()), before.to_arrow().num_rows
    sources = {"source": Source(format="delta", path=str(table), version_as_of=before.version)}
    write_rows(spark, table, sources=sources)
    after = DeltaTable(str(table))
    assert rows_of(after.to_arrow()) == held + held and after.version == before.version + 1
    query = QueryBuilder().register("t", OtherTable(str(table)))
    assert pa.table(query.execute("SELECT * FROM t").read_all()).num_rows == 2 * counted
    write_rows(spark, table, mode="overwrite", sources=sources)
    assert rows_of(DeltaTable(str(table)).to_arrow()) == held
    assert rows_of(DeltaTable(str(table), version=before.version).to_arrow()) == held
