"""Tables of other engines, with various features, accept their rows again as an append and as an overwrite."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.requests import Source
from tests.support.golden import rows_of
from tests.support.tables import write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

# The features of each golden table.
TABLES = {
    "delta-golden/data-reader-timestamp_ntz-id-mode": "columns by id, and times without a zone",
    "delta-golden/dv-with-columnmapping": "deleted rows in columns by name, in partitions",
    "delta-kernel-java/basic-dv-with-checkpoint": "deleted rows, from a checkpoint",
    "delta-kernel-rs/cdf-column-mapping-id-mode": "a change feed of columns by id",
    "gen-deltalake/check_constraints": "a constraint",
}


@pytest.mark.parametrize("name", TABLES, ids=TABLES.values())
def test_a_golden_table_has_its_rows_twice_after_an_append_and_once_after_an_overwrite(spark, golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    golden_table = DeltaTable(str(table))
    golden_rows, row_count = rows_of(golden_table.to_arrow()), golden_table.to_arrow().num_rows
    sources = {"source": Source(format="delta", path=str(table), version_as_of=golden_table.version)}
    write_rows(spark, table, sources=sources)
    appended_table = DeltaTable(str(table))
    assert rows_of(appended_table.to_arrow()) == golden_rows + golden_rows
    assert appended_table.version == golden_table.version + 1
    query = QueryBuilder().register("t", DeltaRsTable(str(table)))
    assert pa.table(query.execute("SELECT * FROM t").read_all()).num_rows == 2 * row_count
    write_rows(spark, table, mode="overwrite", sources=sources)
    assert rows_of(DeltaTable(str(table)).to_arrow()) == golden_rows
    assert rows_of(DeltaTable(str(table), version=golden_table.version).to_arrow()) == golden_rows
