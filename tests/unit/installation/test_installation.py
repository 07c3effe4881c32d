"""The checks find the faults of an installation without starting Spark, and name the command that corrects each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from deltalite.cli import doctor
from deltalite.cli.main import main
from deltalite.installation import packages
from deltalite.installation.checks import CHECKS_GROUP, Check, Status
from deltalite.installation.doctor import check_installation, check_java
from deltalite.installation.packages import STORAGE_CLIENTS, TESTED_VERSIONS, check_storage_clients, check_version
from deltalite.installation.spark import installed_pyspark, pyspark_files
from tests.support.valid_table import create_valid_table

CHECKOUT = Path(__file__).resolve().parents[3]
REPAIR_COMMAND = "pip install --force-reinstall --no-deps 'pyspark==4.3.0'"


def make_pyspark(site: Path, *, module: str | None, jars: str | None) -> Path:
    """Create a folder `pyspark/` with the Python files of the release `module` and the jars of the release `jars`."""
    folder = site / "pyspark"
    (folder / "jars").mkdir(parents=True)
    (folder / "__init__.py").touch()
    if module is not None:
        (folder / "version.py").write_text(f"__version__: str = '{module}'\n", encoding="utf-8")
    if jars is not None:
        (folder / "jars" / f"spark-core_2.13-{jars}.jar").touch()
        (folder / "jars" / "spark-tags_2.13-1.0.jar").touch()
    return folder


@pytest.fixture
def fake_java(tmp_path):
    """Make a fake Java that reports a version; returns the environment in which the checks find it."""

    def make(version_output: str) -> dict[str, str]:
        java = tmp_path / "jdk" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho '{version_output}' >&2\n", encoding="utf-8")
        java.chmod(0o755)
        return {"PATH": os.environ["PATH"], "JAVA_HOME": str(java.parent.parent)}

    return make


@pytest.mark.parametrize(
    ("module", "jars", "is_mixed"),
    [
        ("4.3.0", "4.3.0", False),
        ("4.2.0", "4.3.0", True),  # pyspark-client was unpacked over pyspark
        (None, "4.3.0", True),  # pip uninstalled pyspark-client and deleted files of both packages
        ("4.2.0", None, False),  # only pyspark-client is installed
    ],
)
def test_python_files_and_jars_of_different_releases_are_a_mixed_installation(tmp_path, module, jars, is_mixed):
    files = pyspark_files(make_pyspark(tmp_path, module=module, jars=jars))
    assert (files.files_version, files.jars_version, files.is_mixed) == (module, jars, is_mixed)
    assert not is_mixed or REPAIR_COMMAND in files.remedy


def test_the_installed_pyspark_is_found_without_importing_it(tmp_path, monkeypatch):
    folder = make_pyspark(tmp_path, module="4.2.0", jars="4.3.0")
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    files = installed_pyspark()
    assert files is not None and files.folder == folder
    assert "pyspark" not in sys.modules


@pytest.mark.slow
def test_doctor_finds_a_mixed_pyspark_and_names_the_command_that_repairs_it(tmp_path):
    make_pyspark(tmp_path / "site", module="4.2.0", jars="4.3.0")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(CHECKOUT / "spark_jobs")])}
    process = subprocess.run(
        [sys.executable, "-m", "deltalite.cli", "doctor", "--json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 3, process.stderr
    checks = {check["check"]: check for check in map(json.loads, process.stdout.splitlines())}
    assert checks["pyspark"]["status"] == "error"
    assert "jars of Spark 4.3.0, but the Python files of 4.2.0" in checks["pyspark"]["message"]
    assert checks["pyspark"]["remedy"] == f"Run: {REPAIR_COMMAND}"


@pytest.fixture
def register_checks(monkeypatch):
    """A function that replaces the checks of other distributions. By default, there are none."""

    def register(**functions):
        for name, function in functions.items():
            setattr(sys.modules[__name__], f"registered_{name}", function)
        entries = [EntryPoint(name, f"{__name__}:registered_{name}", CHECKS_GROUP) for name in functions]
        monkeypatch.setattr(doctor, "entry_points", lambda *, group: entries if group == CHECKS_GROUP else [])
        monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])

    register()
    return register


def test_doctor_exits_with_0_for_a_valid_installation_in_text_and_json(tmp_path, register_checks, capsys):
    table = create_valid_table(tmp_path / "t").root
    assert main(["doctor", table, "--json"]) == 0
    checks = {check["check"]: check for check in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {"python", "java", "spark", "pyspark", "pyarrow", "apache-airflow", "storage-s3", "storage"} <= set(checks)
    assert checks["storage"]["message"].endswith("the newest version is 5")
    assert all(set(check) == {"check", "status", "message", "remedy"} for check in checks.values())
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert output.split()[:3] == ["check", "status", "result"] and "0 errors" in output
    assert "storage  " not in output


def test_doctor_reports_a_storage_that_does_not_answer(register_checks, capsys):
    assert main(["doctor", "odd-scheme://bucket/t", "--json"]) == 3
    (storage,) = [
        check for check in map(json.loads, capsys.readouterr().out.splitlines()) if check["check"] == "storage"
    ]
    assert storage["status"] == "error" and storage["remedy"]


def test_doctor_runs_registered_checks_and_reports_those_that_fail(register_checks, capsys):
    def passing(scope):
        print("a library prints on standard output")
        return [Check(name="mine", status=Status.OK, message=f"{scope.conn_id} {scope.storage_conn_id}")]

    def missing(scope):
        raise ModuleNotFoundError("No module named 'airflow'")

    def outdated(scope):
        raise ImportError("cannot import name 'AirflowException'")

    def failing(scope):
        yield Check(name="first", status=Status.OK, message="")
        raise ZeroDivisionError("what")

    register_checks(passing=passing, missing=missing, outdated=outdated, failing=failing)
    assert main(["doctor", "--json", "--conn-id", "yarn", "--storage-conn-id", "aws"]) == 3
    out, err = capsys.readouterr()
    checks = {check["check"]: check for check in map(json.loads, out.splitlines())}
    assert checks["mine"]["message"] == "yarn aws"
    assert checks["missing"]["status"] == "skipped"
    assert checks["outdated"]["status"] == "error" and "cannot import name" in checks["outdated"]["message"]
    assert checks["failing"]["status"] == "error" and "ZeroDivisionError: what" in checks["failing"]["message"]
    assert "a library prints" in err


def test_the_provider_registers_its_checks():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][CHECKS_GROUP] == {"airflow": "airflow_provider_deltalite.installation_checks:checks"}


@pytest.mark.parametrize(
    ("version_output", "status"),
    [
        ('openjdk version "17.0.13" 2024-10-15', Status.OK),
        ('openjdk version "21" 2023-09-19', Status.WARNING),
        ('java version "1.8.0_402"', Status.ERROR),
        ("Segmentation fault", Status.ERROR),
    ],
)
def test_the_version_of_java_is_checked(fake_java, version_output, status):
    check = check_java(fake_java(version_output))
    assert (check.status, bool(check.remedy)) == (status, status is not Status.OK)


def test_missing_java_and_missing_spark_are_separate_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    checks = {check.name: check for check in check_installation({"PATH": str(tmp_path)}, None)}
    assert checks["java"].status is checks["spark"].status is Status.ERROR
    assert checks["pyarrow"].status is Status.OK


@pytest.mark.parametrize(
    ("installed", "status"),
    [
        ("4.0.5", Status.OK),
        ("4.2.1", Status.OK),
        ("4.3.9", Status.OK),
        ("3.5.8", Status.WARNING),
        ("4.4.0", Status.WARNING),
    ],
)
def test_an_untested_version_is_a_warning(installed, status):
    assert check_version("spark", "Spark", installed, tested=("4.0.5", "4.3.0")).status is status


def test_the_tested_versions_are_those_of_the_constraints():
    def pinned_versions(name):
        lines = (CHECKOUT / name).read_text(encoding="utf-8").splitlines()
        return dict(line.split(" ;")[0].split("==") for line in lines if "==" in line and not line.startswith("#"))

    newest, oldest = pinned_versions("constraints.txt"), pinned_versions("constraints-oldest.txt")
    assert {name: (oldest.get(name, newest[name]), newest[name]) for name in TESTED_VERSIONS} == TESTED_VERSIONS


def test_only_the_client_of_the_storage_of_the_table_is_required(monkeypatch):
    monkeypatch.setattr(packages, "installed_version", {"s3fs": "1"}.get)
    statuses = {check.name: check.status for check in check_storage_clients(None)}
    assert set(statuses.values()) == {Status.SKIPPED}
    checks = {check.name: check for check in check_storage_clients("s3a")}
    # The client uses its default credentials, not those of an Airflow connection.
    assert checks["storage-s3"].status is Status.WARNING
    checks = {check.name: check for check in check_storage_clients("gs")}
    assert checks["storage-gcs"].status is Status.ERROR
    assert checks["storage-gcs"].remedy == "Run: pip install 'airflow-provider-deltalite[gcs]'"


def test_each_client_of_a_storage_is_an_extra_of_the_package():
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    for client in STORAGE_CLIENTS:
        extra_packages = {package.split("[")[0] for package in extras[client.extra]}
        assert extra_packages == {client.package, client.provider}
