"""The wheel: its content, its installation into an empty environment, and a run of the installed program.

The tests need no network:

- The build uses the hatchling of this environment.
- The wheel is installed without its dependencies. A .pth file in the new environment adds the packages of this
  environment.

The new environment still imports this project from the wheel. An editable installation is itself a .pth file, and
Python does not follow .pth files of a folder that another .pth file adds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from deltalite.errors import TableNotFoundError
from deltalite.requests import RunIdentity, Source, WriteRequest
from deltalite.results import OperationResult
from tests.support.submitting import end_markers

pytestmark = [pytest.mark.packaging, pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = sysconfig.get_paths()["purelib"]


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = CHECKOUT) -> str:
    """Run a program and return its standard output. If it fails, the AssertionError contains its complete output."""
    process = subprocess.run(
        [str(part) for part in command], env=env, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, CHECKOUT)
    [wheel_file] = folder.glob("*.whl")
    return wheel_file


@pytest.fixture(scope="module")
def names_in_wheel(wheel) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel, names_in_wheel) -> dict[str, str]:
    """The texts of the files in the wheel's dist-info folder, by their path in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in names_in_wheel if ".dist-info/" in name]
        return {name.partition(".dist-info/")[2]: archive.read(name).decode() for name in names}


@pytest.fixture(scope="module")
def installed_python(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment with the wheel, and with the other packages of this environment."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).strip())
    (site / "other_packages.pth").write_text(SITE_PACKAGES + "\n", encoding="utf-8")
    return python


@pytest.fixture
def clean_env(installed_python) -> dict[str, str]:
    """The environment variables of this process, without those that tell an interpreter where packages are."""
    prefixes_of_package_variables = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(prefixes_of_package_variables)
    }
    return {
        **inherited,
        "PYSPARK_PYTHON": str(installed_python),
        "PYSPARK_DRIVER_PYTHON": str(installed_python),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"],  # the options of a JVM that lives for seconds
    }


def test_the_wheel_contains_both_packages_as_top_level_names(names_in_wheel):
    assert {name.split("/")[0] for name in names_in_wheel if ".dist-info/" not in name} == {
        "airflow_provider_deltalite",
        "deltalite",
    }


def test_the_wheel_contains_every_source_file_and_nothing_else(names_in_wheel):
    sources = {
        path.relative_to(root.parent).as_posix()
        for root in (CHECKOUT / "airflow_provider_deltalite", CHECKOUT / "spark_jobs" / "deltalite")
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names_in_wheel if ".dist-info/" not in name} == sources


def test_both_packages_are_marked_as_typed(names_in_wheel):
    assert {"airflow_provider_deltalite/py.typed", "deltalite/py.typed"} <= names_in_wheel


def test_the_wheel_declares_the_provider_the_command_line_its_licence_and_its_extras(metadata):
    assert "[apache_airflow_provider]" in metadata["entry_points.txt"]
    assert (
        "provider_info = airflow_provider_deltalite.get_provider_info:get_provider_info" in metadata["entry_points.txt"]
    )
    assert "[console_scripts]\ndeltalite = deltalite.cli.main:entry" in metadata["entry_points.txt"]
    headers = metadata["METADATA"].split("\n\n")[0].splitlines()
    assert "License-Expression: Apache-2.0 AND MIT" in headers
    assert {line.removeprefix("Provides-Extra: ") for line in headers if line.startswith("Provides-Extra")} == {
        "azure",
        "gcs",
        "kubernetes",
        "openlineage",
        "pyspark",
        "s3",
    }
    assert "Apache License" in metadata["licenses/LICENSE"]
    assert "Leon Sorokin" in metadata["licenses/airflow_provider_deltalite/page/static/uplot/LICENSE"]


def test_the_installed_packages_come_from_the_wheel(installed_python, clean_env, tmp_path):
    code = "import airflow_provider_deltalite as a, deltalite as d; print(a.__file__); print(d.__file__)"
    lines = run(installed_python, "-c", code, env=clean_env, cwd=tmp_path).splitlines()
    assert len(lines) == 2
    assert [Path(path).is_relative_to(installed_python.parents[1]) for path in lines] == [True, True]


def test_the_installed_command_line_runs_from_anywhere(installed_python, clean_env, tmp_path):
    script = installed_python.parent / "deltalite"
    assert run(script, "-V", env=clean_env, cwd=tmp_path).startswith("deltalite ")
    process = subprocess.run(
        [script, "detail", "nowhere"], env=clean_env, cwd=tmp_path, capture_output=True, check=False
    )
    assert process.returncode == TableNotFoundError.exit_code, process.stderr


@pytest.mark.spark
def test_a_job_submitted_from_the_installed_wheel_writes_a_table(installed_python, clean_env, tmp_path):
    code = "from importlib.resources import files; print(files('deltalite') / 'jobs' / 'write.py')"
    job = run(installed_python, "-c", code, env=clean_env, cwd=tmp_path).strip()
    feed, table, request_file = tmp_path / "feed.csv", tmp_path / "table", tmp_path / "request.json"
    feed.write_text("id,name\n1,one\n2,two\n3,three\n", encoding="utf-8")
    source = Source(format="csv", path=str(feed), options={"header": "true"}, schema="id BIGINT, name STRING")
    request = WriteRequest(
        table=str(table), sources={"source": source}, identity=RunIdentity(app_id="test/wheel/write/-1/run")
    )
    request_file.write_text(request.to_json(), encoding="utf-8")

    spark_submit = Path(sys.executable).parent / "spark-submit"
    options = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    output = run(spark_submit, "--master", "local[1]", *options, job, request_file, env=clean_env, cwd=tmp_path)

    [result] = end_markers(output)
    assert isinstance(result, OperationResult)
    assert (result.version, result.committed, result.skipped) == (0, True, False)
    commit = (table / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
    add_actions = [action["add"] for line in commit.splitlines() if "add" in (action := json.loads(line))]
    assert sum(json.loads(add["stats"])["numRecords"] for add in add_actions) == 3
    assert all((table / add["path"]).is_file() for add in add_actions)
