"""The checks of `deltalite doctor` that need neither Airflow nor a running Spark.

They cover:

- Python, and Java by running `java -version`
- spark-submit, the Spark that it starts, and Spark's Python files
- the connector jar for a table's scheme
- the versions of packages, and the clients of object stores
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from deltalite.errors import InvalidRequestError
from deltalite.installation.checks import Check, Status, failed_check
from deltalite.installation.packages import (
    TESTED_VERSIONS,
    check_package,
    check_python,
    check_storage_clients,
    check_version,
    installed_version,
)
from deltalite.installation.spark import (
    SPARK_SUBMIT,
    find_java,
    find_spark_home,
    find_spark_submit,
    installed_pyspark,
    missing_connectors,
    version_of_jars,
)

_OLDEST_JAVA = 17
_TESTED_JAVA = 17
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')
_TIMEOUT_SECONDS = 30.0
# Package -> whether deltalite needs the package even without Airflow.
_IS_REQUIRED_WITHOUT_AIRFLOW = {
    "pyarrow": True,
    "apache-airflow": False,
    "apache-airflow-providers-apache-spark": False,
    "apache-airflow-providers-common-compat": False,
}


def check_installation(environ: Mapping[str, str], scheme: str | None) -> Iterator[Check]:
    """Yield the results of the checks. They are independent, so a missing part does not hide another fault.

    Args:
        environ: The environment of the process that would start spark-submit.
        scheme: The scheme of the table's address, None if no table is checked.
    """
    yield check_python()
    yield check_java(environ)
    yield from _check_spark(environ, scheme)
    yield from (check_package(package, required=required) for package, required in _IS_REQUIRED_WITHOUT_AIRFLOW.items())
    yield from check_storage_clients(scheme)


def check_java(environ: Mapping[str, str]) -> Check:
    """Check that Java exists and is new enough. This is the Java that spark-submit would start."""
    try:
        program = find_spark_submit(SPARK_SUBMIT, environ)
    except InvalidRequestError:
        # With only the name of the program, the search for Java ignores Spark's configuration.
        program = SPARK_SUBMIT
    try:
        java = find_java(program, environ)
    except InvalidRequestError as error:
        return failed_check("java", error)
    if java is None:
        return Check(name="java", status=Status.SKIPPED, message="spark-env.sh decides which Java Spark starts.")
    remedy = "Install Java 17 (on Debian: apt-get install openjdk-17-jre-headless)."
    try:
        process = subprocess.run(  # noqa: S603  the program that Spark would start
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name="java", status=Status.ERROR, message=f"{java} does not run: {error}.", remedy=remedy)
    version = _JAVA_VERSION.search(process.stderr + process.stdout)
    if version is None:
        return Check(name="java", status=Status.ERROR, message=f"{java} does not print its version.", remedy=remedy)
    major_version = int(version[1])
    if major_version < _OLDEST_JAVA:
        message = f"{java} is Java {major_version}, but Spark 4 needs Java {_OLDEST_JAVA} or later."
        return Check(name="java", status=Status.ERROR, message=message, remedy=remedy)
    if major_version != _TESTED_JAVA:
        message = f"{java} is Java {major_version}, which is not a tested version; tested: {_TESTED_JAVA}."
        return Check(name="java", status=Status.WARNING, message=message, remedy=remedy)
    return Check(name="java", status=Status.OK, message=f"Java {major_version}, {java}")


def _check_spark(environ: Mapping[str, str], scheme: str | None) -> Iterator[Check]:
    try:
        program = find_spark_submit(SPARK_SUBMIT, environ)
        home = find_spark_home(SPARK_SUBMIT, environ)
    except InvalidRequestError as error:
        yield failed_check("spark", error)
        return
    version = version_of_jars(home)
    if version is None:
        message = f"{program} exists, but {home} contains no jars, so Spark's version is unknown."
        remedy = "Check SPARK_HOME, and `spark-submit --version`."
        yield Check(name="spark", status=Status.WARNING, message=message, remedy=remedy)
    else:
        yield check_version(
            "spark", f"{program} starts Spark in {home}, version", version, tested=TESTED_VERSIONS["pyspark"]
        )
    yield _check_pyspark(home, version)
    for jar in missing_connectors(home, environ, [scheme] if scheme else [], ()):
        yield Check(
            name="connector",
            status=Status.WARNING,
            message=f"Spark cannot access {scheme}://: its folder `jars` contains no {jar} jar, and no setting "
            "names more jars.",
            remedy="Put the jar for Spark's Hadoop version into Spark's folder `jars`, or name it in `packages`, "
            "`jars` or spark-defaults.conf.",
        )


def _check_pyspark(home: Path, jars_version: str | None) -> Check:
    """Check that the Python files of Spark belong to its jars; `jars_version` is the version of the jars in `home`."""
    files = installed_pyspark()
    if files is None:
        message = f"This Python has no pyspark; jobs use the Python files in {home}."
        return Check(name="pyspark", status=Status.SKIPPED, message=message)
    if files.is_mixed:
        return Check(name="pyspark", status=Status.ERROR, message=files.problem, remedy=files.remedy)
    if files.jars_version is None and files.folder == home:
        message = f"{files.folder} contains no jars: it belongs to pyspark-client, which cannot start Spark."
        remedy = f"Run: pip install --force-reinstall --no-deps 'pyspark=={TESTED_VERSIONS['pyspark'][1]}'"
        return Check(name="pyspark", status=Status.ERROR, message=message, remedy=remedy)
    client = installed_version("pyspark-client")
    note = f"; pyspark-client {client} is installed over the same folder" if client and files.jars_version else ""
    if files.files_version != jars_version and jars_version is not None:
        note += f"; jobs use the Python files of Spark {jars_version}"
    return Check(name="pyspark", status=Status.OK, message=f"Python files of Spark {files.files_version}{note}")
