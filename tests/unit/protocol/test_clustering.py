"""The clustering columns of a table are read in both spellings, and a new schema keeps them."""

from __future__ import annotations

import json

import pytest

from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.errors import CorruptLogError, MetadataChangedException, SchemaMismatchError
from deltalite.protocol.actions import DomainMetadata
from deltalite.protocol.clustering import check_keeps_clustering, clustering_columns, has_clustering_columns
from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.txn.winners import NoConflict, Winner, judge
from tests.unit.builders import PROTOCOL, SCHEMA, add, metadata, proposal, struct, txn

TABLE = TableSchema(logical=StructType((*SCHEMA.fields, StructField("s", struct(x="long")))))


def domain(columns, text=None):
    json_text = json.dumps({"clusteringColumns": columns, "domainName": "delta.clustering"}) if text is None else text
    return {"delta.clustering": DomainMetadata(domain="delta.clustering", configuration=json_text, removed=False)}


@pytest.mark.parametrize("columns", [["id", ["s", "x"]], [["id"], ["s", "x"]]])
def test_columns_are_names_or_paths(columns):
    assert clustering_columns(domain(columns)) == (("id",), ("s", "x"))
    assert clustering_columns({}) == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"clusteringColumns": 5}', '{"clusteringColumns": [[]]}',
                                  '{"clusteringColumns": [[1]]}', '{"clusteringColumns": "x"}',
                                  '{"clusteringColumns": {"x": 1}}', "[" * 9999])  # fmt: skip
def test_a_domain_without_columns_raises_an_error(text):
    with pytest.raises(CorruptLogError, match=r"delta\.clustering"):
        clustering_columns(domain(None, text))
    assert not has_clustering_columns(domain(None, text), ())


def test_a_new_schema_keeps_the_clustering_columns_by_physical_name():
    check_keeps_clustering((("id",), ("s", "x")), TABLE)
    check_keeps_clustering((), TableSchema(logical=struct(a="long"), partition_columns=("a",)))
    for columns, column_text in (((("s",),), "s "), ((("s", "y"),), r"s\.y"), ((("ID",),), "ID")):
        with pytest.raises(SchemaMismatchError, match=f"clustered by {column_text}"):
            check_keeps_clustering(columns, TABLE)
    for type_name in ("boolean", "binary"):
        with pytest.raises(SchemaMismatchError, match="without bounds"):
            check_keeps_clustering((("id",),), TableSchema(logical=struct(id=type_name)))
    mapped = StructField("id", PrimitiveType("long"), metadata={"delta.columnMapping.physicalName": "p"})
    table = TableSchema(logical=StructType((mapped,)), mode=MappingMode.NAME)
    check_keeps_clustering((("p",),), table)
    with pytest.raises(SchemaMismatchError):
        check_keeps_clustering((("id",),), table)
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned by day too"):
        check_keeps_clustering((("id",),), TableSchema(logical=SCHEMA, partition_columns=("day",)))


@pytest.mark.parametrize(
    "properties", [{"delta.dataSkippingNumIndexedCols": "1"}, {"delta.dataSkippingStatsColumns": "id"}]
)
def test_clustering_columns_have_statistics_with_any_configuration(properties):
    indexed = indexed_columns(TABLE, properties, always=(("s", "x"),))
    assert [path for path, _ in indexed.leaves] == [("id",), ("s", "x")]


def test_the_configuration_names_logical_columns_and_statistics_have_physical_names():
    def mapped_field(name, kind):
        return StructField(name, kind, metadata={"delta.columnMapping.physicalName": f"p_{name}"})

    inner = StructType((mapped_field("x", PrimitiveType("long")), mapped_field("y", PrimitiveType("long"))))
    fields = (
        mapped_field("day", PrimitiveType("string")),
        mapped_field("a", PrimitiveType("long")),
        mapped_field("s", inner),
    )
    table = TableSchema(logical=StructType(fields), partition_columns=("day",), mode=MappingMode.NAME)
    paths = lambda properties: [path for path, _ in indexed_columns(table, properties).leaves]
    assert paths({}) == [("p_a",), ("p_s", "p_x"), ("p_s", "p_y")]
    assert paths({"delta.dataSkippingNumIndexedCols": "2"}) == [("p_a",), ("p_s", "p_x")]
    assert paths({"delta.dataSkippingStatsColumns": "S.y"}) == [("p_s", "p_y")]


def test_an_append_conflicts_with_new_clustering_columns():
    winner = Winner(version=5, actions=list(domain(["id"]).values()))
    for actions, expected_class in (((add("n"),), MetadataChangedException), ((txn("run"),), NoConflict)):
        judgement = judge(proposal(4, *actions, base=(PROTOCOL, metadata())), winner, "mine")
        assert isinstance(judgement, expected_class)
    foreign = DomainMetadata(domain="mine", configuration="", removed=False)
    judgement = judge(proposal(4, add("n"), base=(PROTOCOL, metadata())), Winner(version=5, actions=[foreign]), "mine")
    assert isinstance(judgement, NoConflict)
