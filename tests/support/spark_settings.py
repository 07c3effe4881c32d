"""The settings of the Spark sessions of the tests."""

from __future__ import annotations

# Compiling generated code takes seconds; running it on a few rows takes milliseconds.
WITH_GENERATED_CODE = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
WITHOUT_GENERATED_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}

# For data of a few rows: one task for each stage, and no adaptive plans.
ONE_TASK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
