"""With a quarantine, a value in a column that the table does not have blocks no other record, and is not lost."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import SchemaMismatchError, SourceError
from deltalite.requests import TableRequest
from tests.support.copying import copy_files, loaded_names, write_file
from tests.support.tables import folder_content, ids, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SCHEMA = "id INT, n STRUCT<a: INT>, items ARRAY<STRUCT<p: DOUBLE>>, m MAP<STRING, STRUCT<a: INT>>"
NEW_NAMES = (
    '{"id":4,"x":1}\n{"id":5,"x":null}\n{"id":6,"n":{"a":1,"z":{"q":1}}}\n{"id":7,"items":[{"p":1},{"p":2,"u":"k"}]}\n'
    '{"id":8,"m":{"k":{"a":1,"b":2}}}\n{"id":9,"n":{"a":2},"items":[{"p":1}],"m":{"k":{"a":1}}}\n'
    '[{"id":10,"x":""},{"id":11}]\n{"n":{"w":1}}\n'
)


@pytest.fixture
def target(spark, table):
    """An empty table with nested columns."""
    define_table(spark, TableRequest(table=str(table), schema=SCHEMA))
    return table


def quarantined_rows(quarantine):
    """Return the line, the reason and the record of each quarantined row."""
    table_rows = DeltaTable(str(quarantine)).to_arrow().to_pylist()
    return sorted((row["line"] or 0, row["reason"], row["record"]) for row in table_rows)


def test_json_records_with_new_names_are_quarantined_or_an_error_names_the_file(spark, landing, target, quarantine):
    write_file(landing, "a.json", '{"id":1}\n{"id":2}\n{"id":3}\n')
    write_file(landing, "b.json", NEW_NAMES)
    content_before = folder_content(target)
    with pytest.raises(SchemaMismatchError, match=r"b\.json .*n\.z .*x \(bigint\).*merge_schema=True.*`quarantine`"):
        copy_files(spark, target, landing, "json")
    assert folder_content(target) == content_before
    result = copy_files(spark, target, landing, "json", quarantine=str(quarantine))
    assert ids(target) == [1, 2, 3, 5, 9, 11]
    assert (9, {"a": 2}, [{"p": 1.0}], [("k", {"a": 1})]) in rows(target)
    assert quarantined_rows(quarantine) == [
        (1, "The table has no column 'x'.", '{"id":4,"x":1}'),
        (3, "The table has no column 'n.z'.", '{"id":6,"n":{"a":1,"z":{"q":1}}}'),
        (4, "The table has no column 'items.element.u'.", '{"id":7,"items":[{"p":1},{"p":2,"u":"k"}]}'),
        (5, "The table has no column 'm.value.b'.", '{"id":8,"m":{"k":{"a":1,"b":2}}}'),
        (7, "The table has no column 'x'.", '{"id":10,"x":""}'),
        (8, "The table has no column 'n.w'.", '{"n":{"w":1}}'),
    ]
    assert (result.metrics["numQuarantinedRows"], len(loaded_names(target))) == (6, 2)


def test_json_records_with_a_name_twice_or_with_two_spellings_go_to_the_quarantine(spark, landing, target, quarantine):
    write_file(landing, "a.json", "".join(f'{{"id":{number}}}\n' for number in range(10)))
    write_file(landing, "day=1/b.json", '{"id":40,"id":41}\n')
    define_table(spark, TableRequest(table=str(target), schema=f"{SCHEMA}, day STRING"))
    with pytest.raises(SchemaMismatchError, match=r"/day=1/b\.json: .*`id`.*`quarantine`"):
        copy_files(spark, target, landing, "json")
    write_file(
        landing,
        "day=1/b.json",
        '{"id":40,"id":41}\n{"ID":42}\n{"id":43,"n":{"a":1,"A":2}}\n{"id":44,"m":{"k":{"a":1},"K":{"a":1}}}\n'
        '{"id":45,"m":{"k":{"a":1},"k":{"a":1}}}\n{"id":46,"items":[{"p":1},{"p":1,"p":2}]}\n[{"id":47},{"id":48,"ID":49}]\n'
        '{"id":50,"x":{"y":1,"y":2}}\n{bad\n\n{"id":51,"n":"text"}\n{"id":52,"n":{"a":1,"z":1}}\n{"id":53}\n',
        second=1,
    )
    options = {"quarantine": str(quarantine), "file_column": "file"}
    define_table(spark, TableRequest(table=str(target), schema=f"{SCHEMA}, day STRING, file STRING"))
    copy_files(spark, target, landing, "json", **options)
    assert ids(target) == [*range(10), 44, 47, 53]
    assert {row[4] for row in rows(target)} == {None, "1"} and all(row[5].endswith(".json") for row in rows(target))
    assert [(line, reason) for line, reason, _ in quarantined_rows(quarantine)] == [
        (1, "The record has the name 'id' twice in an object."),
        (2, "Other records write the name 'ID' in another case."),
        (3, "The record has the name 'a' twice in an object."),
        (5, "The record has the name 'k' twice in an object."),
        (6, "The record has the name 'p' twice in an object."),
        (7, "The record has the name 'id' twice in an object."),
        (8, "The record has the name 'y' twice in an object."),
        (9, "Spark cannot read the record as a JSON object."),
        (11, "The column 'n' has the type struct<a:int>, and the text 'text' cannot be read as it."),
        (12, "The table has no column 'n.z'."),
    ]
    assert quarantined_rows(quarantine)[5][2] == '{"id":48,"ID":49}'


def test_records_of_files_without_a_column_of_the_table_are_bad(spark, landing, table, quarantine):
    define_table(spark, TableRequest(table=str(table), schema="id INT, name STRING"))
    write_file(landing, "a.csv", "id;name\n1;a\n")
    with pytest.raises(SourceError, match=r"1 of 1 record did not fit.*The table has no column 'id;name'"):
        copy_files(spark, table, landing, quarantine=str(quarantine), max_bad_share=0.5)
    copy_files(spark, table, landing, quarantine=str(quarantine))
    assert (ids(table), [record for _, _, record in quarantined_rows(quarantine)]) == ([], ["1;a"])


def test_values_in_a_new_csv_column_go_to_the_quarantine(spark, landing, table, quarantine):
    define_table(spark, TableRequest(table=str(table), schema="id INT, name STRING"))
    write_file(landing, "a.csv", "id,name\n1,a\n")
    write_file(landing, "b.csv", "id,price,name\n2,9,b\n3,,c\n4,8,d\nx,7,e\n5,,f\n")
    write_file(landing, "c.csv", "price\n\n9\n")
    with pytest.raises(SchemaMismatchError, match=r"/[bc]\.csv .*price \(string\)"):
        copy_files(spark, table, landing)
    copy_files(spark, table, landing, quarantine=str(quarantine), max_bad_share=0.6)
    assert ids(table) == [1, 3, 5]
    assert [(line, record) for line, _, record in quarantined_rows(quarantine)] == [
        (2, "2,9,b"), (3, "9"), (4, "4,8,d"), (5, "x,7,e"),
    ]  # fmt: skip
    assert sum("no column 'price'" in reason for _, reason, _ in quarantined_rows(quarantine)) == 3
    copy_files(spark, table, landing, merge_schema=True, force=True, pattern="c.csv")
    assert DeltaTable(str(table)).schema.names == ["id", "name", "price"]
