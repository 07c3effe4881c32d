"""The location and version of Spark and Java on this machine, found without starting a JVM.

The search order is that of Spark's own scripts (`bin/find-spark-home`, `bin/spark-class`).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from deltalite.errors import InvalidRequestError

SPARK_SUBMIT = "spark-submit"
# The prefixes of the connector jars' names, by the scheme of an address. One of the jars is enough.
_CONNECTOR_JARS = {
    "s3": ("hadoop-aws",),
    "s3a": ("hadoop-aws",),
    "s3n": ("hadoop-aws",),
    "abfs": ("hadoop-azure",),
    "abfss": ("hadoop-azure",),
    "gs": ("hadoop-gcp", "gcs-connector"),
}
_JAR_SETTING_WORDS = ("jars", "packages", "classpath")
_SPARK_CORE = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
_MODULE_VERSION = re.compile(r"""^__version__[^=]*=\s*['"]([^'"]+)['"]""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PySparkFiles:
    """The folder `pyspark/` of a Python environment, as `pip install pyspark` creates it.

    `files_version` is the version of its Python files; None if unknown. `jars_version` is the version of its jars; None
    if it contains no jars, like the folder of pyspark-client.
    """

    folder: Path
    files_version: str | None
    jars_version: str | None

    @property
    def is_mixed(self) -> bool:
        """Whether the Python files and the jars are of different releases."""
        return self.jars_version is not None and self.files_version != self.jars_version

    @property
    def problem(self) -> str:
        """The error text for a mixed folder."""
        files = f"the Python files of {self.files_version}" if self.files_version else "no complete Python files"
        return (
            f"{self.folder} contains the jars of Spark {self.jars_version}, but {files}. "
            "The packages pyspark and pyspark-client install the same files, and one replaced the files of the other."
        )

    @property
    def remedy(self) -> str:
        """The command that repairs a mixed folder, which `pip check` does not notice."""
        return f"Run: pip install --force-reinstall --no-deps 'pyspark=={self.jars_version}'"


def find_spark_submit(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of `program` on the PATH. The default program may also be in the folder of this Python.

    `pip install pyspark` puts spark-submit into the folder of this Python, which is often not on a worker's PATH.

    Raises:
        InvalidRequestError: the program does not exist.
    """
    beside_python = os.path.join(os.path.dirname(sys.executable), SPARK_SUBMIT)
    if path := shutil.which(program, path=environ.get("PATH")):
        return path
    if program == SPARK_SUBMIT and os.access(beside_python, os.X_OK):
        return beside_python
    raise InvalidRequestError(
        f"The program '{program}' is not on the PATH of this worker.",
        remedy="Install Spark (pip install 'airflow-provider-deltalite[pyspark]'), or set `spark_binary` to its path.",
    )


def find_spark_home(program: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of Spark: SPARK_HOME, the folder of the program, or this Python's pyspark.

    Raises:
        InvalidRequestError: the program does not exist.
    """
    if home := environ.get("SPARK_HOME"):
        return Path(home)
    program_home = Path(find_spark_submit(program, environ)).resolve().parent.parent
    if (program_home / "jars").is_dir():
        return program_home
    return _pyspark_folder() or program_home


def conf_folder(program: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of Spark's configuration files, which may be missing.

    Raises:
        InvalidRequestError: as `find_spark_home`, if SPARK_CONF_DIR is not set.
    """
    return Path(environ.get("SPARK_CONF_DIR") or find_spark_home(program, environ) / "conf")


def find_java(program: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of Java, searched as in Spark's `bin/spark-class`: in JAVA_HOME, then on the PATH.

    Returns None if Java is not found but a `spark-env.sh` exists, because that file may set JAVA_HOME.

    Args:
        program: The path of spark-submit. Its folder determines the path of `spark-env.sh`.
        environ: The environment of spark-submit.

    Raises:
        InvalidRequestError: there is no Java.
    """
    if home := environ.get("JAVA_HOME"):
        java = os.path.join(home, "bin", "java")
        if os.access(java, os.X_OK):
            return java
        raise InvalidRequestError(
            f"JAVA_HOME is '{home}', but this folder contains no program bin/java.",
            remedy="Correct JAVA_HOME, or unset it and put Java 17 or later on the PATH.",
        )
    java_on_path = shutil.which("java", path=environ.get("PATH"))
    if java_on_path or _has_spark_env(program, environ):
        return java_on_path
    raise InvalidRequestError(
        "There is no Java on this worker: JAVA_HOME is not set, and 'java' is not on the PATH.",
        remedy="Install Java 17 or later (on Debian: apt-get install openjdk-17-jre-headless).",
    )


def missing_connectors(
    home: Path, environ: Mapping[str, str], schemes: Iterable[str], settings: Iterable[str]
) -> list[str]:
    """Return the names, without versions, of the connector jars that Spark probably lacks for these schemes.

    Returns an empty list if a setting or file may add more jars, or if `home` contains no folder of jars.

    Args:
        home: The folder of Spark.
        environ: The environment of spark-submit.
        schemes: Schemes of addresses, such as `s3`.
        settings: Names of the job's settings and parameters that have a value.
    """
    folder = home / "jars"
    required = {_CONNECTOR_JARS[scheme] for scheme in schemes if scheme in _CONNECTOR_JARS}
    if not required or not folder.is_dir():
        return []
    conf = _conf_folder_of(home, environ)
    config_texts = [*settings, *(_read_text(conf / name) for name in ("spark-defaults.conf", "spark-env.sh"))]
    may_add_jars = any(word in text.lower() for text in config_texts for word in _JAR_SETTING_WORDS)
    if "SPARK_DIST_CLASSPATH" in environ or may_add_jars:
        return []
    jar_names = [jar.name for jar in folder.iterdir()]
    missing = [prefixes for prefixes in required if not any(name.startswith(prefixes) for name in jar_names)]
    return sorted(" or ".join(prefixes) for prefixes in missing)


def version_of_jars(home: Path) -> str | None:
    """Return the version of the Spark in a folder, from the name of its core jar; None if it contains no such jar."""
    matches = (_SPARK_CORE.fullmatch(jar.name) for jar in home.glob("jars/spark-core_*.jar"))
    return next((match[1] for match in matches if match is not None), None)


def installed_pyspark() -> PySparkFiles | None:
    """Return the versions in the `pyspark/` folder of this Python; None if it has no pyspark."""
    folder = _pyspark_folder()
    return None if folder is None else pyspark_files(folder)


def pyspark_files(folder: Path) -> PySparkFiles:
    """Return the versions of the files in a folder `pyspark/`."""
    match = _MODULE_VERSION.search(_read_text(folder / "version.py"))
    files_version = match[1] if match else None
    return PySparkFiles(folder=folder, files_version=files_version, jars_version=version_of_jars(folder))


def _pyspark_folder() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _read_text(file: Path) -> str:
    """Return the text of a file; empty if the file does not exist."""
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _has_spark_env(program: str, environ: Mapping[str, str]) -> bool:
    home = Path(environ.get("SPARK_HOME") or Path(program).resolve().parent.parent)
    return (_conf_folder_of(home, environ) / "spark-env.sh").exists()


def _conf_folder_of(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("SPARK_CONF_DIR") or home / "conf")
