"""The protocol and the metadata of a table that drops a feature."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.protocol.feature_dropping import droppable_features, enabling_properties, without_features
from deltalite.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from tests.unit.builders import metadata
from tests.unit.protocol.builders import protocol_with

TYPE_CHANGES = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}
LONG = PrimitiveType("long")
INNER = StructType((StructField("inner", LONG, metadata={**TYPE_CHANGES, "comment": "kept"}),))
WIDENED = StructType((StructField("a", LONG, metadata=TYPE_CHANGES), StructField("b", ArrayType(INNER))))
DROPPED_FEATURES = {"typeWidening"}


def test_the_schema_loses_each_recorded_change_and_nothing_else():
    properties = {"delta.enableTypeWidening": "true", "delta.appendOnly": "true"}
    before = replace(metadata(properties, schema=WIDENED), description="kept")
    _, after = without_features(protocol_with(readers=("typeWidening",)), before, DROPPED_FEATURES)
    assert "typeChanges" not in after.schema_string and "kept" in after.schema_string
    assert [f["name"] for f in json.loads(after.schema_string)["fields"]] == ["a", "b"]
    assert (after.configuration, after.description) == ({"delta.appendOnly": "true"}, "kept")


@pytest.mark.parametrize(
    ("before", "reader_version", "readers"),
    [
        (protocol_with(readers=("typeWidening",)), 1, None),
        (protocol_with("appendOnly", readers=("typeWidening", "deletionVectors")), 3, ("deletionVectors",)),
        (protocol_with("appendOnly", readers=("columnMapping", "typeWidening")), 2, None),
    ],
)
def test_the_protocol_loses_the_feature_and_protects_checkpoints(before, reader_version, readers):
    after, _ = without_features(before, metadata(), DROPPED_FEATURES)
    expected = {*before.writer_features, "checkpointProtection"} - DROPPED_FEATURES
    assert set(after.writer_features) == expected and after.min_writer_version == 7
    assert (after.min_reader_version, after.reader_features) == (reader_version, readers)


def test_the_preview_of_a_feature_is_dropped_separately():
    before = protocol_with(readers=("typeWidening", "typeWidening-preview"))
    after, _ = without_features(before, metadata(), droppable_features(["TypeWidening-Preview"]))
    assert after.reader_features == ("typeWidening",)


def test_only_some_features_can_be_dropped():
    assert droppable_features(["TYPEWIDENING"]) == DROPPED_FEATURES
    for name in ("deletionVectors", "unknown"):
        with pytest.raises(InvalidRequestError, match=name) as caught:
            droppable_features([name])
        assert "typeWidening" in caught.value.remedy


def test_a_property_and_a_feature_request_enable_a_feature():
    assert enabling_properties(DROPPED_FEATURES) == {"delta.enableTypeWidening", "delta.feature.typeWidening"}
