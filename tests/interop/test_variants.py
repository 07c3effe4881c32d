"""delta-spark and this library write variants to one table in turn, with and without shredding."""

from __future__ import annotations

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from tests.support.merging import merge_into
from tests.support.tables import delete_rows, optimize_table, update_rows, write_rows

pytestmark = [
    pytest.mark.spark,
    pytest.mark.interop,
    pytest.mark.generated_code,
    pytest.mark.usefixtures("quick_plans"),
]

ROWS = 'SELECT id, parse_json(\'{"n": \' || id || \', "t": "x"}\') AS v FROM range(%d, %d)'


def expected_rows(**changes):
    """Return the rows 0 to 9 as (id, JSON of the variant). `_7="x"` gives row 7 this JSON, `_7=None` omits row 7."""
    texts = {f"_{id_}": f'{{"n":{id_},"t":"x"}}' for id_ in range(10)} | changes
    return [(int(name[1:]), text) for name, text in texts.items() if text is not None]


@pytest.mark.campaign
@pytest.mark.parametrize("shredding", ["false", "true"])
def test_each_engine_changes_variants_of_the_other(spark, delta_spark, tmp_path, shredding):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"

    def assert_rows(rows):
        rows_by_this_library = delta.read(spark, str(table)).selectExpr("id", "to_json(v)").collect()
        rows_by_delta_spark = delta_spark.sql(f"SELECT id, to_json(v) AS v FROM {sql_name}")
        assert sorted(map(tuple, rows_by_this_library)) == sorted(map(tuple, rows_by_delta_spark)) == rows

    properties = {"delta.enableVariantShredding": shredding, "delta.enableDeletionVectors": "true"}
    write_rows(spark, table, ROWS % (0, 5), properties=properties)
    delta_spark.sql(f"INSERT INTO {sql_name} {ROWS % (5, 10)}")
    assert_rows(expected_rows())
    delta_spark.sql(f"UPDATE {sql_name} SET v = parse_json('1') WHERE id = 1")
    update_rows(spark, table, {"v": "parse_json('[2]')"}, "id = 7")
    assert_rows(expected_rows(_1="1", _7="[2]"))
    delete_rows(spark, table, "variant_get(v, '$.n', 'long') = 3")
    delta_spark.sql(f"DELETE FROM {sql_name} WHERE id = 8")
    assert_rows(expected_rows(_1="1", _7="[2]", _3=None, _8=None))
    merge_into(spark, table, ROWS % (1, 2), "target.id = source.id", matched=[{"update": "*"}])
    delta_spark.sql(f"OPTIMIZE {sql_name}")
    optimize_table(spark, table, max_deleted_rows_ratio=0)
    assert_rows(expected_rows(_7="[2]", _3=None, _8=None))
    writer_features = set(DeltaTable(str(table)).protocol.writer_features or ())
    assert {feature for feature in writer_features if feature.startswith("variant")} == (
        {"variantType", "variantShredding"} if shredding == "true" else {"variantType"}
    )
