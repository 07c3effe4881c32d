"""The remedy of a refused table names the engine that supports each feature."""

from __future__ import annotations

import pytest

from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.features import FEATURES, check_readable, check_writable
from deltalite.protocol.other_engines import DELTA_SPARK_FEATURES, remedy_for
from tests.unit.protocol.builders import PLAIN, protocol_with


def test_features_are_grouped_by_their_engine():
    names = ["icebergCompatV3", "collations", "geospatial", "timestampNanos", "labTimeWarp"]
    assert remedy_for("Read", names) == (
        "Read the table with another engine. Databricks Runtime 16.4 or later supports collations. "
        "delta-spark 4.4 supports geospatial, icebergCompatV3. "
        "For labTimeWarp, timestampNanos, use the engine that added the feature to the table."
    )


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("catalogManaged", "with the catalog of the table"),
        ("geospatial", "delta-spark 4.4 supports geospatial."),
        ("adaptiveMetadata-preview", "the engine that added the feature"),
        ("timestampNanos", "the engine that added the feature"),
    ],
)
def test_a_table_that_cannot_be_read_is_rejected_with_its_engine(name, engine):
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        check_readable(protocol_with(readers=[name]), PLAIN)
    assert engine in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("collations", "Databricks Runtime 16.4 or later supports collations."),
        ("icebergCompatV3", "delta-spark 4.4 supports icebergCompatV3."),
        ("columnMappingUsageTracking", "the engine that added the feature"),
    ],
)
def test_a_table_that_cannot_be_written_is_rejected_with_its_engine(name, engine):
    check_readable(protocol_with(name), PLAIN)
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        check_writable(protocol_with(name), PLAIN)
    assert engine in caught.value.remedy


def test_no_remedy_names_delta_spark_for_a_feature_that_this_release_writes():
    assert [name for name in DELTA_SPARK_FEATURES if name in FEATURES and FEATURES[name].writable_active] == []
