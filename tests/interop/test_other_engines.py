"""delta-spark supports each feature for which the remedies of this library name delta-spark."""

from __future__ import annotations

import pytest

from deltalite.protocol.other_engines import DELTA_SPARK_FEATURES
from tests.support.delta_spark import DeltaSparkError

pytestmark = pytest.mark.interop


def test_delta_spark_creates_a_table_with_each_feature_that_this_library_leaves_to_it(delta_spark, tmp_path):
    errors_by_feature = {}
    for name in sorted(DELTA_SPARK_FEATURES):
        properties = f"'delta.feature.{name}' = 'supported', 'delta.columnMapping.mode' = 'name'"
        try:
            delta_spark.sql(
                f"CREATE TABLE delta.`{tmp_path / name}` (id BIGINT) USING delta TBLPROPERTIES ({properties})"
            )
        except DeltaSparkError as error:
            errors_by_feature[name] = str(error)
    assert errors_by_feature == {}
