"""Avro files are loaded once, with the reader of Avro files that Spark publishes as a separate package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from deltalite import DeltaTable
from tests.support.delta_spark import ENVIRONMENT, skip_or_fail_if_missing

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]
CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from tests.support.copying import copy_files

table, landing, jar = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.jars", jar).config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
older = spark.sql("SELECT 1 AS id, 'one' AS name, CAST('1.20' AS DECIMAL(10,2)) AS amount, DATE'2026-01-01' AS day")
newer = spark.sql("SELECT array(struct(7 AS n)) AS items, 2L AS id")
for name, rows in (("older", older), ("newer", newer)):
    rows.coalesce(1).write.format("avro").save(f"{landing}/{name}")
schema = "id BIGINT, name STRING, amount DECIMAL(10,2), day DATE, items ARRAY<STRUCT<n: INT>>"
options = {"file_format": "avro", "schema": schema, "source_options": {}}
results = [copy_files(spark, table, landing, run=run, **options) for run in ("first", "second")]
print(json.dumps([(result.committed, result.metrics["numLoadedFiles"]) for result in results]))
"""


def test_avro_files_of_two_schemas_are_loaded_once(tmp_path):
    skip_or_fail_if_missing()
    (jar,) = (ENVIRONMENT / "avro").glob("*.jar")
    # The tested Spark may be newer than the newest published reader, so the job runs on the Spark of the reference.
    (packages,) = (ENVIRONMENT / "lib").glob("python*/site-packages")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    path = os.pathsep.join(map(str, (packages, CHECKOUT / "spark_jobs", CHECKOUT)))
    job = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t"), str(tmp_path / "landing"), str(jar)],
        env=environment | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert job.returncode == 0, job.stderr[-4000:]
    assert json.loads(job.stdout) == [[True, 2], [False, 0]]
    older, newer = sorted(DeltaTable(str(tmp_path / "t")).to_arrow().to_pylist(), key=lambda row: row["id"])
    assert older == {"id": 1, "name": "one", "amount": Decimal("1.20"), "day": date(2026, 1, 1), "items": None}
    assert newer == {"id": 2, "name": None, "amount": None, "day": None, "items": [{"n": 7}]}
