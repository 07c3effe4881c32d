"""Starts a job, if the Python of the driver can run it.

A cluster may have another Python than the worker. This module and its imports run in Python 3.9 or later. A driver
whose Python is too old for the job, or lacks a package, can therefore report this error.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

from deltalite.errors import InvalidRequestError

_OLDEST_PYTHON = (3, 11)
_PACKAGES = ("numpy", "pyarrow")


def start_job(name: str, command_path: str, request_path: str, arguments: list[str]) -> int:
    """Run a job, and return the exit code of the process.

    Args:
        name: The name of the operation, for Spark's UI.
        command_path: The function that runs the operation, as ``module:function``.
        request_path: The class of its request, as ``module:class``.
        arguments: The arguments of the process: the path of the request file.
    """
    problem = problem_of_python(sys.version_info[:2], lambda package: find_spec(package) is not None)
    if problem is not None:
        return _report(problem, arguments)
    sys.path[:] = paths_with_compiled_pyspark(sys.path)
    from deltalite.jobs.runner import run

    return run(name, resolve_name(request_path).from_json, resolve_name(command_path), arguments)


def problem_of_python(version: tuple[int, ...], is_installed: Callable[[str], bool]) -> str | None:
    """Return the reason why a Python of this version cannot run jobs; None if it can."""
    python = f"The Python of the driver ({platform.python_version()}, {sys.executable}, host {platform.node()})"
    if version < _OLDEST_PYTHON:
        return f"{python} is too old: jobs need Python {'.'.join(map(str, _OLDEST_PYTHON))} or later."
    missing_packages = [package for package in _PACKAGES if not is_installed(package)]
    return f"{python} lacks {' and '.join(missing_packages)}." if missing_packages else None


def paths_with_compiled_pyspark(paths: list[str]) -> list[str]:
    """Return the search path with the folder of PySpark in place of its zip file, if this Spark has both.

    `spark-submit` puts `SPARK_HOME/python/lib/pyspark.zip` on the path. From this file, Python compiles each module
    again at each start, which takes a second. A distribution of Spark has the same modules in `SPARK_HOME/python`. In
    the package of pip, they are in `SPARK_HOME`, and the folder of packages is on the path already.
    """
    result = []
    for path in paths:
        file = Path(path)
        if file.name != "pyspark.zip" or file.parent.parts[-2:] != ("python", "lib"):
            result.append(path)
            continue
        spark_home = file.parent.parent.parent
        if (spark_home / "python" / "pyspark" / "__init__.py").is_file():
            result.append(str(spark_home / "python"))
        elif spark_home.name != "pyspark" or str(spark_home.parent) not in paths:
            result.append(path)
    return result


def _report(problem: str, arguments: list[str]) -> int:
    """Print the error, and return its exit code."""
    remedy = (
        "Install numpy and pyarrow in a Python of version 3.11 or later where drivers run, and name this Python with "
        "spark.pyspark.python in `conf`. Or use deploy mode 'client', which uses the worker's Python."
    )
    error = InvalidRequestError(problem, remedy=remedy)
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    try:
        from deltalite.markers import error_marker, nonce_of

        nonce = nonce_of(Path(arguments[0]).read_text(encoding="utf-8"))
        marker = error_marker(type(error).__name__, str(error), remedy=remedy, nonce=nonce)
        sys.stdout.write(f"\n{marker}\n")  # in one write, as in `runner`
        sys.stdout.flush()
    except (ImportError, TypeError, OSError):
        pass  # An older Python cannot import the module. The exit code tells the worker enough.
    return error.exit_code
