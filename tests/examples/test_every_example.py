"""Every example DAG has a test that runs it, and is cheap to parse."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.examples.dag_runs import EXAMPLES

TESTS = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

_PARSE_PROGRAM = """
import json, runpy, sys
from airflow.sdk import Connection, ObjectStoragePath, Variable
from airflow.providers.common.compat.sdk import BaseHook

def fail(*args, **kwargs):
    raise AssertionError("A DAG file called Airflow or storage while it was parsed.")

BaseHook.get_connection = Connection.get = Variable.get = ObjectStoragePath.iterdir = ObjectStoragePath.glob = fail
for path in sys.argv[1:]:
    runpy.run_path(path)
packages = {"airflow_provider_deltalite", "deltalite", "pyarrow", "pyspark", "py4j", "pandas", "numpy", "deltalake"}
print(json.dumps({n: m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] in packages and m.__file__}))
"""
OUR_PACKAGES = ("airflow_provider_deltalite", "deltalite")
# The cost of parsing a DAG file depends on its imports; benchmarks/bench_parse.py measures the time. Raise this limit
# only if parsing itself needs more source. If only a running task needs a module, import it in the method that uses it.
MAX_BYTES_OF_SOURCE = 489_000


@cache
def examples_that_are_run() -> set[str]:
    """Return the names of the DAGs that tests load with `example`, or run in a complete Airflow as `DAG_ID`."""
    names: set[str] = set()
    texts = (path.read_text("utf-8") for path in TESTS.rglob("*.py"))
    for text in texts:
        if "example(" not in text and "DAG_ID" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name(id="example"), args=[ast.Constant(value=str() as name)]):
                    names.add(name)
                case ast.Assign(targets=[ast.Name(id="DAG_ID")], value=ast.Constant(value=str() as name)):
                    names.add(name)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_run_by_a_test(name):
    assert name in examples_that_are_run()


@pytest.mark.slow
def test_parsing_the_examples_calls_neither_airflow_nor_storage_and_imports_little_source():
    paths = [str(EXAMPLES / f"{name}.py") for name in NAMES]
    process = subprocess.run(
        [sys.executable, "-c", _PARSE_PROGRAM, *paths], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    files = json.loads(process.stdout.strip().splitlines()[-1])
    assert [name for name in files if not name.startswith(OUR_PACKAGES)] == []
    sizes = {name: Path(file).stat().st_size for name, file in files.items()}
    assert sum(sizes.values()) <= MAX_BYTES_OF_SOURCE, sorted(sizes.items(), key=lambda size: -size[1])[:15]
