"""delta-spark supports the features for which a remedy of this library names it."""

from __future__ import annotations

import pytest

from deltalite.protocol.other_engines import DELTA_SPARK
from tests.support.delta_spark import DeltaSparkError

pytestmark = pytest.mark.interop


def test_delta_spark_creates_tables_with_the_features_that_are_left_to_it(delta_spark, tmp_path):
    refused = {}
    for name in sorted(DELTA_SPARK):
        properties = f"'delta.feature.{name}' = 'supported', 'delta.columnMapping.mode' = 'name'"
        try:
            delta_spark.sql(
                f"CREATE TABLE delta.`{tmp_path / name}` (id BIGINT) USING delta TBLPROPERTIES ({properties})"
            )
        except DeltaSparkError as error:
            refused[name] = str(error)
    assert refused == {}
