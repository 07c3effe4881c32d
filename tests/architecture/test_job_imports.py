"""A job imports its command in another thread, while the JVM opens the session.

PySpark's modules import each other in cycles, so that thread must not import any of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite import jobs

JOBS = sorted(path for path in Path(next(iter(jobs.__path__))).glob("*.py") if "start_job(" in path.read_text())
PROGRAM = """
import json, re, sys
from pathlib import Path
from pkgutil import resolve_name

import deltalite.jobs.runner

before = set(sys.modules)
for path in sys.argv[1:]:
    for name in re.findall(r"deltalite[.][a-z_.]+:[A-Za-z_]+", Path(path).read_text()):
        resolve_name(name)
print(json.dumps([sorted(before), sorted(set(sys.modules) - before)]))
"""


@pytest.fixture(scope="module")
def imports():
    """The modules that the runner imports, and the modules that the commands of all jobs import after these."""
    paths = [str(path) for path in JOBS if path.name != "starting.py"]
    process = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True)
    return tuple(map(set, json.loads(process.stdout)))


def test_no_command_imports_a_module_of_pyspark_that_the_runner_has_not_imported(imports):
    of_runner, of_commands = imports
    assert "pyspark.sql" in of_runner and "deltalite.commands.merge.command" in of_commands
    assert [name for name in of_commands if name.split(".")[0] in ("pyspark", "py4j")] == []


def test_the_runner_leaves_the_large_packages_to_the_other_thread(imports):
    of_runner, of_commands = imports
    large_packages = {"pyarrow", "pyarrow.parquet", "deltalite.snapshot"}
    assert large_packages <= of_commands and not large_packages & of_runner
