"""The settings of the Spark sessions of the tests."""

from __future__ import annotations

# Spark needs seconds to compile generated code. On a few rows, compiled code saves only milliseconds.
WITH_GENERATED_CODE = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
WITHOUT_GENERATED_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}

# For data of a few rows: one task for each stage, and no adaptive plans.
ONE_TASK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
