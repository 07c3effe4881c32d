"""Airflow parses a DAG file every half minute, so the parsing loads no slow module and looks up no connection."""

import subprocess
import sys

_DAG = """
import sys
from datetime import datetime
from airflow.sdk import DAG
from airflow.providers.common.compat.sdk import BaseHook
from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaMergeOperator, DeltaWriteOperator
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger, DeltaVersionTrigger
from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite.errors import InvalidRequestError

def refuse(*args, **kwargs):
    raise AssertionError("a connection was looked up while the DAG was parsed")

BaseHook.get_connection = refuse
with DAG("d", schedule=[delta_asset("/lake/b", watch=True, storage_conn_id=None)], start_date=datetime(2026, 1, 1)):
    load = DeltaWriteOperator(task_id="load", table="/lake/a", source={"format": "csv"}, conn_id="missing")
    DeltaVersionSensor(task_id="wait", table="/lake/a", after_version="{{ 1 }}", deferrable=True) >> load
    load >> DeltaDeleteOperator(task_id="forget", table="/lake/a", condition="id = {{ 1 }}")
    load >> DeltaMergeOperator.partial(
        task_id="merge", table="/lake/a", source={"format": "csv"}, when_matched=[{"update": "*"}]
    ).expand(on=["target.id = source.id AND target.day = '1'", "target.id = source.id AND target.day = '2'"])
try:
    with DAG("wrong", schedule=None):
        DeltaWriteOperator(task_id="load", table="/t", source={"format": "csv"}, mode="appendd")
except InvalidRequestError as error:
    assert "mode is 'appendd'" in str(error)
else:
    raise AssertionError("the parsing accepted a wrong constant")
print([name for name in ("pyarrow", "pyspark", "py4j", "pandas", "numpy") if name in sys.modules])
"""


def test_parsing_a_dag_imports_neither_pyarrow_nor_spark_and_looks_up_no_connection():
    process = subprocess.run([sys.executable, "-c", _DAG], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip().splitlines()[-1] == "[]"
