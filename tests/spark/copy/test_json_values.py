"""JSON records with more text after their first value: Spark's reader would lose the rest without an error."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import SourceError
from deltalite.requests import TableRequest
from tests.support.copying import copy_files, write_file
from tests.support.selection import sample_every
from tests.support.tables import ids

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

GOOD = [
    '{"id":1}', '{"id":2,"n":[{"a":1},{"a":2}]}', '{"id":3,"t":"}{"}', '{"id":4,"t":"[1] x\\" }, {"},', ' {"id":5} ',
    '[{"id":6},{"id":7}]', '{"id":8,"x":NaN,"n":[{}]}', "{'id':9,'t':'}{'}", '{"id":10}}', '\ufeff{"id":11,"t":"}{"}',
]  # fmt: skip
BAD = ['{"id":20}{"id":21}', '{"id":22}, {"id":23}', '{"id":24} x', '[{"id":25}] [{"id":26}]', '{"id":27}\t{"t":"}{"},']


@pytest.fixture
def table(spark, tmp_path):
    define_table(
        spark,
        TableRequest(table=str(tmp_path / "orders"), schema="id INT, t STRING, x DOUBLE, n ARRAY<STRUCT<a: INT>>"),
    )
    return tmp_path / "orders"


SCHEMAS = [None, "id INT, t STRING"]


@pytest.mark.parametrize(("record", "schema"), sample_every(3, [(bad, schema) for bad in BAD for schema in SCHEMAS]))
def test_a_record_with_more_text_fails_a_load_without_a_quarantine(spark, landing, table, record, schema):
    write_file(landing, "bad.json", '{"id":0}\n' + record)
    with pytest.raises(SourceError, match=r"/bad\.json has more text after its first JSON value, and .*: .*[{]"):
        copy_files(spark, table, landing, "json", schema=schema)
    assert ids(table) == []


@pytest.mark.parametrize("schema", SCHEMAS)
def test_records_with_more_text_go_to_the_quarantine(spark, landing, table, quarantine, schema):
    options = {"schema": schema}
    write_file(landing, "good.json", "\n".join(GOOD))
    copy_files(spark, table, landing, "json", **options)
    assert ids(table) == list(range(1, 12))
    write_file(landing, "bad.json", "\n".join([*BAD, *(record.replace(":1", ":3") for record in GOOD)]))
    copy_files(spark, table, landing, "json", quarantine=str(quarantine), max_bad_share=1, **options)
    assert len(ids(table)) == 2 * 11
    bad_rows = DeltaTable(str(quarantine)).to_arrow().sort_by("line").to_pylist()
    assert [row["record"] for row in bad_rows] == BAD
    more_text = "The record has more text after its first JSON value."
    no_object = "Spark cannot read the record as a JSON object."
    assert [row["reason"] for row in bad_rows] == [more_text] * 3 + [no_object, more_text]


def test_a_file_with_several_objects_is_not_one_record(spark, landing, table, quarantine):
    options = {"source_options": {"multiLine": "true"}}
    write_file(landing, "one.json", '{\n"id": 1,\n"t": "}\\n{"\n}\n')
    write_file(landing, "lines.json", '{"id":2}\n{"id":3}\n')
    with pytest.raises(SourceError, match=r"/lines\.json has more text after its first JSON value"):
        copy_files(spark, table, landing, "json", **options)
    copy_files(spark, table, landing, "json", quarantine=str(quarantine), **options)
    assert ids(table) == [1]
    assert DeltaTable(str(quarantine)).to_arrow()["record"].to_pylist() == ['{"id":2}\n{"id":3}\n']
