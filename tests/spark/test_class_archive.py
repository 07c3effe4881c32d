"""A real JVM makes and uses an archive of classes. A JVM that cannot use an archive runs the job without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deltalite.installation.class_archive import java_options
from deltalite.installation.class_archive_making import make_archive
from tests.support.submitting import submit_command
from tests.support.tables import request

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

FROM_ARCHIVE = "source: shared objects file (top)"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """An archive that a real training job made in a separate temporary folder."""
    patch = pytest.MonkeyPatch()
    patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    new_archive = make_archive("spark-submit", os.environ)
    patch.undo()
    assert new_archive is not None and new_archive.seconds is not None and new_archive.problem is None
    return new_archive.path


def run_write(folder: Path, options: str, **conf: str) -> str:
    """Write one row to a table in `folder` with these options of the JVM, and return the output of the job."""
    folder.mkdir()
    command = submit_command(folder, request(folder / "table", "SELECT 1 AS id"), conf=conf)
    completed = subprocess.run(
        command,
        env={**os.environ, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout + completed.stderr


def test_a_driver_loads_the_classes_of_its_write_from_the_archive(archive, tmp_path):
    loads = tmp_path / "loads"
    run_write(tmp_path / "with", f"{java_options(archive)} -Xlog:class+load:file={loads}")
    lines = loads.read_text().splitlines()
    spark_lines = [line for line in lines if "org.apache.spark." in line and "$$Lambda" not in line]
    assert sum(FROM_ARCHIVE in line for line in spark_lines) > 0.9 * len(spark_lines) > 1000


def test_a_job_that_cannot_use_the_archive_runs_without_a_warning(archive, tmp_path):
    conf_folder = tmp_path / "conf"
    conf_folder.mkdir()
    (conf_folder / "x.txt").touch()
    no_archive = tmp_path / "no-archive.jsa"
    no_archive.write_bytes(b"0" * 4096)
    outputs = [
        run_write(tmp_path / "dcp", java_options(archive), **{"spark.driver.extraClassPath": str(conf_folder)}),
        run_write(tmp_path / "zgc", f"{java_options(archive)} -XX:+UseZGC"),
        run_write(tmp_path / "foreign", java_options(no_archive)),
    ]
    assert not [line for output in outputs for line in output.splitlines() if "[cds" in line or "archive" in line]
