"""CSV files with a header, loaded with a `schema` of the source: no value gets into a wrong column."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.errors import DeltaLiteError, SchemaMismatchError
from tests.support.copying import copy_files, loaded_names, write_file
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SCHEMA = "id INT, name STRING, amount DECIMAL(9,2)"


def test_reordered_missing_and_additional_columns_are_matched_by_name(spark, landing, table):
    write_file(landing, "a.csv", "amount,ID,name\n1.5,1,one\n")
    write_file(landing, "b.csv", "id,note,name,amount\n2,x,two,2.5\n")
    write_file(landing, "c.csv", "name,id\nthree,3\n")
    write_file(landing, "d.csv", "id,name,amount\n4,four,4.5\n")
    write_file(landing, "e.csv", "number,text,sum\n5,five,5.5\n")
    copy_files(spark, table, landing, schema=SCHEMA, file_column="file")
    loaded = DeltaTable(str(table)).to_arrow()
    assert loaded.column_names == ["id", "name", "amount", "file"]
    values = zip(*(loaded[name].to_pylist() for name in ("id", "name", "amount")), strict=True)
    assert sorted((number, name, str(amount)) for number, name, amount in values) == [
        (1, "one", "1.50"), (2, "two", "2.50"), (3, "three", "None"), (4, "four", "4.50"), (5, "five", "5.50"),
    ]  # fmt: skip


def test_columns_in_partition_folders_have_the_types_of_the_schema(spark, landing, table):
    write_file(landing / "day=1", "a.csv", "name,id\none,1\n")
    write_file(landing / "day=2", "b.csv", "id,name\n2,two\n")
    write_file(landing, "c.csv", "day,name,id\n3,three,3\n")
    write_file(landing, "d.csv", "name,id\nfour,4\n")
    copy_files(spark, table, landing, schema="id INT, day INT, name STRING")
    loaded = DeltaTable(str(table)).to_arrow().select(["id", "day", "name"]).to_pylist()
    assert sorted(tuple(row.values()) for row in loaded) == [
        (1, 1, "one"), (2, 2, "two"), (3, 3, "three"), (4, None, "four"),
    ]  # fmt: skip


def test_a_record_without_an_ignored_column_is_bad(spark, landing, table, quarantine):
    write_file(landing, "a.csv", "id,name,note\n1,one,x\n2,two\n")
    with pytest.raises(DeltaLiteError, match=r"a\.csv"):
        copy_files(spark, table, landing, schema="id INT, name STRING")
    copy_files(spark, table, landing, schema="id INT, name STRING", quarantine=str(quarantine))
    assert rows(table) == [(1, "one")]
    assert DeltaTable(str(quarantine)).to_arrow()["record"].to_pylist() == ["2,two"]


def test_a_misplaced_column_fails_the_load_or_quarantines_the_file(spark, landing, table, quarantine):
    write_file(landing, "a.csv", "name,number\none,1\n")
    write_file(landing, "b.csv", "id,name\n2,two\n")
    problem = r"The header of .*a\.csv has 'name' in column 1, and `schema` of the source has it in column 2\."
    with pytest.raises(SchemaMismatchError, match=problem):
        copy_files(spark, table, landing, schema="id STRING, name STRING")
    assert not table.exists()
    copy_files(spark, table, landing, schema="id STRING, name STRING", quarantine=str(quarantine))
    assert (rows(table), loaded_names(table)) == ([("2", "two")], ["a.csv", "b.csv"])
    (reason,) = DeltaTable(str(quarantine)).to_arrow()["reason"].to_pylist()
    assert reason.startswith("The header of ") and reason.endswith("has it in column 2.")
