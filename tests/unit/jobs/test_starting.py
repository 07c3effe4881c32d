"""A driver whose Python cannot run jobs reports a permanent error that names the Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.jobs.starting import paths_with_compiled_pyspark, problem_of_python
from deltalite.markers import parse_marker

LIBRARY = Path(__file__).resolve().parents[3] / "spark_jobs"


def test_a_new_python_with_all_packages_has_no_problem():
    assert problem_of_python((3, 11), lambda package: True) is None


@pytest.mark.parametrize(
    ("version", "installed", "problem"),
    [
        ((3, 10), {"numpy", "pyarrow"}, "is too old: jobs need Python 3.11 or later"),
        ((3, 12), set(), "lacks numpy and pyarrow"),
        ((3, 12), {"pyarrow"}, "lacks numpy."),
    ],
)
def test_the_problem_names_the_python_and_the_reason(version, installed, problem):
    text = problem_of_python(version, lambda package: package in installed)
    assert sys.executable in text and problem in text


def test_a_job_without_pyarrow_prints_an_error_marker_and_ends_with_its_exit_code(tmp_path):
    request = tmp_path / "request.json"
    request.write_text('{"nonce": "00ff"}')
    script = LIBRARY / "deltalite" / "jobs" / "write.py"
    # With `-S`, this Python does not find installed packages. It finds only this library.
    command = [sys.executable, "-S", str(script), str(request)]
    process = subprocess.run(command, env={"PYTHONPATH": str(LIBRARY)}, capture_output=True, text=True, check=False)
    assert process.returncode == InvalidRequestError.exit_code
    assert "InvalidRequestError: The Python of the driver" in process.stderr
    (marker,) = [line for line in process.stdout.splitlines() if line]
    assert "pyarrow" in parse_marker(marker, "00ff").message


@pytest.mark.parametrize(
    ("home", "package", "other_paths", "expected"),
    [
        ("spark", "spark/python/pyspark", [], "spark/python"),  # a distribution
        ("site/pyspark", "site/pyspark", ["site"], None),  # the package of pip, which is on the path already
        ("site/pyspark", "site/pyspark", [], "site/pyspark/python/lib/pyspark.zip"),
        ("spark", "other", [], "spark/python/lib/pyspark.zip"),  # a Spark with the zip file only
    ],
)
def test_pyspark_comes_from_its_folder_if_the_same_spark_has_one(tmp_path, home, package, other_paths, expected):
    (tmp_path / package).mkdir(parents=True)
    (tmp_path / package / "__init__.py").touch()
    others = [str(tmp_path / path) for path in other_paths]
    paths = ["/library.zip", str(tmp_path / home / "python" / "lib" / "pyspark.zip"), "/usr/lib/python3", *others]
    pyspark_paths = [] if expected is None else [str(tmp_path / expected)]
    assert paths_with_compiled_pyspark(paths) == ["/library.zip", *pyspark_paths, "/usr/lib/python3", *others]
