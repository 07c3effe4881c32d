"""Shared fixtures: the process's environment, one Spark session, one Airflow database, and the golden tables.

Airflow and Spark read their settings from the environment once, at their first import. This module therefore sets the
environment before pytest imports any test module. The first test that uses Spark or Airflow starts it; unit tests
start neither.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.java_options import QUICK_JVM_OPTIONS, SESSION_MEMORY_OPTIONS
from tests.support.quick_errors import make_errors_quicker
from tests.support.quick_hadoop import make_hadoop_quicker
from tests.support.spark_settings import ONE_TASK, WITH_GENERATED_CODE, WITHOUT_GENERATED_CODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# A shell starts a command in the background with SIGINT ignored, and its programs inherit this. Tests send SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.support.folder_servers", "tests.support.selection"]

CHECKOUT = Path(__file__).resolve().parent.parent
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="deltalite-airflow-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)

# `spark-submit` uses the first `python3` on the PATH, and only this interpreter's environment has Spark.
for name in ("SPARK_HOME", "PYTHONPATH", "PYSPARK_SUBMIT_ARGS"):
    os.environ.pop(name, None)
os.environ |= {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}

# Most JVMs of the tests live for seconds. They would spend this time on loading classes and compiling unused code.
CLASS_ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_JVM_OPTIONS + (
    f" -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:disable -Xlog:all=error:stderr" if CLASS_ARCHIVE.exists() else ""
)

# The settings of an Airflow on this machine must not change a test's outcome.
for name in [name for name in os.environ if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))]:
    del os.environ[name]
os.environ |= {
    "AIRFLOW_HOME": str(AIRFLOW_HOME),
    # `dag.test()` runs only DAGs in a configured DAG bundle; the default bundle is this folder.
    "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "example_dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{AIRFLOW_HOME / 'airflow.db'}",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(AIRFLOW_HOME / "logs"),
    "AIRFLOW__DELTALITE__CLASS_ARCHIVE": "off",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    # `unit_test_mode` is not set: it loads the configuration of Airflow's tests, with examples and other intervals.
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """The one Spark session of this process, silent and bound to the loopback address.

    Thousands of queries run in it. The session therefore keeps one ended query, and uses small memory pages for
    broadcasts. Only a full garbage collection frees unused broadcasts, and large pages would fill the heap first.
    Calls of Hadoop and the creation of errors take less time than in a job (`quick_hadoop`, `quick_errors`).
    """
    from pyspark.sql import SparkSession

    from deltalite.spark.runtime.java_classes import remember_classes

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.buffer.pageSize": "1m",
        "spark.default.parallelism": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} {SESSION_MEMORY_OPTIONS}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # it costs time for each column
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.retainedJobs": "1",
        "spark.ui.retainedStages": "1",
        "spark.ui.retainedTasks": "10",
        "spark.ui.showConsoleProgress": "false",
    }
    as_in_production = pytestconfig.getoption("--generated-code") or pytestconfig.getoption("--campaign")
    settings |= WITH_GENERATED_CODE if as_in_production else WITHOUT_GENERATED_CODE
    folders = (".hadoop/s3a", ".hadoop/abfs", ".object_stores/fake_gcs_server")
    connectors = sorted(str(jar) for folder in folders for jar in CHECKOUT.glob(f"{folder}/*.jar"))
    builder = SparkSession.builder.master("local[2]").appName("deltalite-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as environment:
        # These jars come last on the class path. If others came before Spark's, the JVM would not use the archive.
        environment.setenv("SPARK_DIST_CLASSPATH", os.pathsep.join(connectors))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remember_classes(session)
    make_hadoop_quicker(session)
    make_errors_quicker(session)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _generated_code(request: pytest.FixtureRequest) -> Iterator[None]:
    """Turn on generated code for a module with the marker `generated_code`, and turn it off for one with `interpreted`.

    Without generated code Spark reads Parquet row by row, so the modules that test reading have `generated_code`. Code
    for a query costs more time than it saves on a small table, so modules with hundreds of small tables have
    `interpreted`. Other modules keep the setting of the session.
    """
    names = {mark.name for mark in request.node.iter_markers()}
    if names.isdisjoint({"generated_code", "interpreted"}):
        yield
        return
    from deltalite.spark.runtime.session import settings

    values = WITH_GENERATED_CODE if "generated_code" in names else WITHOUT_GENERATED_CODE
    with settings(request.getfixturevalue("spark"), values):
        yield


@pytest.fixture(scope="module")
def one_task(spark: SparkSession) -> Iterator[None]:
    """Give Spark one task for each stage, and switch adaptive plans off, for data of a few rows."""
    from deltalite.spark.runtime.session import settings

    with settings(spark, ONE_TASK):
        yield


@pytest.fixture(scope="module")
def quick_plans(request, pytestconfig):
    """Use `one_task`, except in the campaign (`make campaign`, the long tests).

    The tests of a module with this fixture use a few rows, and most of their time is for planning. With adaptive plans
    Spark optimizes the rest of a query after each of its stages. The campaign, the submitted jobs and the other modules
    use adaptive plans.
    """
    if not (pytestconfig.getoption("--campaign") or pytestconfig.getoption("--generated-code")):
        request.getfixturevalue("one_task")


@pytest.fixture
def without_gcsfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process believe that the client for `gs://` is not installed."""
    monkeypatch.setitem(sys.modules, "gcsfs", None)


def pytest_unconfigure() -> None:
    """Silence py4j, which logs errors about lost Java objects at exit."""
    logging.disable(logging.CRITICAL)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of tables that other engines wrote: `DELTALITE_GOLDEN`, or `shared/golden` beside the checkout."""
    from tests.support.golden import GOLDEN

    if GOLDEN.is_dir():
        return GOLDEN
    problem = f"The golden tables are not at {GOLDEN}; set DELTALITE_GOLDEN to their folder."
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(problem)
    pytest.skip(problem)


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[Path]:
    """AIRFLOW_HOME with a migrated, empty metadata database; created once for this process.

    `empty.db` in this folder is a copy of this database. Tests that need a separate Airflow copy it, because Airflow
    takes seconds to create a database.

    All tasks of `dag.test()` then share one in-process API server.
    """
    from contextlib import closing
    from sqlite3 import connect

    from airflow.utils.db import initdb

    from tests.support.api_server import share_api_server

    initdb()
    with closing(connect(AIRFLOW_HOME / "airflow.db")) as database, closing(connect(AIRFLOW_HOME / "empty.db")) as copy:
        database.backup(copy)
    with pytest.MonkeyPatch.context() as patch:
        share_api_server(patch)
        yield AIRFLOW_HOME
