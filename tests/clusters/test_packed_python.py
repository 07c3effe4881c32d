"""YARN's cluster mode with a Python that lacks numpy and pyarrow on the nodes, and with a packed environment for it."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path
from venv import EnvBuilder

import pytest
import venv_pack
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.slow_jobs import source_of

pytestmark = pytest.mark.campaign
IN_CLUSTER_MODE = pytest.mark.parametrize("mode", ["yarn-cluster"], indirect=True)
PYTHON_IN_ARCHIVE = "./environment/bin/python"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A packed virtual environment with the numpy and pyarrow of this environment, as `venv-pack` makes it."""
    environment = tmp_path_factory.mktemp("environments") / "pyspark_env"
    EnvBuilder(symlinks=True).create(environment)
    packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    for name in ("numpy", "pyarrow"):  # a copy, because a test that installs packages needs a package index
        for file in distribution(name).files:
            if ".." not in file.parts:
                copy = environment / packages / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), copy)
    return Path(venv_pack.pack(str(environment), output=f"{environment}.tar.gz"))


@pytest.fixture
def bare_python(tmp_path):
    """A Python without packages."""
    EnvBuilder(symlinks=True).create(tmp_path / "bare")
    return str(tmp_path / "bare" / "bin" / "python")


def write_with(mode, python: str, **parameters) -> DeltaWriteOperator:
    """A write whose driver runs in this Python."""
    conf = {"spark.pyspark.python": python}
    return DeltaWriteOperator(
        **mode.parameters("load", "orders", conf=conf, **parameters), source=source_of(mode, "first", range(100))
    )


@IN_CLUSTER_MODE
def test_a_driver_without_numpy_and_pyarrow_is_a_permanent_error_that_names_its_python(mode, bare_python):
    error = rf"^InvalidRequestError: The Python of the driver \(.*, {bare_python}, host .*\) lacks numpy and pyarrow"
    with pytest.raises(AirflowFailException, match=error):
        mode.run(write_with(mode, bare_python))
    assert mode.commit_files("orders") == []


@IN_CLUSTER_MODE
@pytest.mark.parametrize("place", ["worker", "hdfs"])
def test_a_driver_with_a_packed_environment_writes_the_rows(mode, archive, place):
    address = str(archive)
    if place == "hdfs":
        path = f"/environments/{archive.name}"
        mode.yarn.write(path, archive.read_bytes(), modified_s=archive.stat().st_mtime)
        address = f"{mode.yarn.hdfs}{path}"
    result = mode.run(write_with(mode, PYTHON_IN_ARCHIVE, archives=f"{address}#environment"))
    assert (result["committed"], result["metrics"]["numOutputRows"]) == (True, 100)
