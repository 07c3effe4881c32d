"""The checks of Python packages: versions compared with the tested ones, and clients of object stores."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from deltalite.installation.checks import Check, Status
from deltalite.version import VERSION

# Package -> the oldest and the newest tested version, as in constraints-oldest.txt and constraints.txt.
TESTED_VERSIONS: dict[str, tuple[str, str]] = {
    "apache-airflow": ("3.1.8", "3.3.2"),
    "apache-airflow-providers-apache-spark": ("6.3.4", "6.3.4"),
    "apache-airflow-providers-common-compat": ("1.23.0", "1.23.0"),
    "pyarrow": ("26.0.1", "26.0.1"),
    "pyspark": ("4.0.5", "4.3.0"),
}
_OLDEST_PYTHON = (3, 11)
# Only major and minor versions are compared, so that a patch release of a tested version counts as tested.
_COMPARED_NUMBERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClient:
    """The packages that read a storage without Spark: the fsspec client and the Airflow provider.

    `extra` is the extra of airflow-provider-deltalite that installs both.
    """

    schemes: tuple[str, ...]
    package: str
    provider: str
    extra: str


STORAGE_CLIENTS = (
    StorageClient(schemes=("s3", "s3a", "s3n"), package="s3fs", provider="apache-airflow-providers-amazon", extra="s3"),
    StorageClient(schemes=("gs", "gcs"), package="gcsfs", provider="apache-airflow-providers-google", extra="gcs"),
    StorageClient(
        schemes=("abfs", "abfss"),
        package="adlfs",
        provider="apache-airflow-providers-microsoft-azure",
        extra="azure",
    ),
)


def installed_version(package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_python() -> Check:
    """Check the Python that runs this process."""
    python_version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        return Check(
            name="python",
            status=Status.ERROR,
            message=f"Python {python_version} is too old.",
            remedy="Use Python 3.11 or later.",
        )
    return Check(name="python", status=Status.OK, message=f"Python {python_version}, deltalite {VERSION}")


def check_package(package: str, *, required: bool) -> Check:
    """Check that a package is installed in a tested version. A missing package is an error if it is required."""
    oldest, newest = TESTED_VERSIONS[package]
    installed = installed_version(package)
    if installed is None:
        status = Status.ERROR if required else Status.SKIPPED
        remedy = f"Run: pip install '{package}=={newest}'" if required else ""
        return Check(name=package, status=status, message=f"{package} is not installed.", remedy=remedy)
    return check_version(package, package, installed, tested=(oldest, newest))


def check_version(name: str, label: str, installed: str, *, tested: tuple[str, str]) -> Check:
    """Check a version against the oldest and the newest tested version. An untested version is a warning.

    `label` is the beginning of the message; the version follows it.
    """
    oldest, newest = tested
    lowest, highest = (_release_numbers(version_text)[:_COMPARED_NUMBERS] for version_text in tested)
    if lowest <= _release_numbers(installed)[:_COMPARED_NUMBERS] <= highest:
        return Check(name=name, status=Status.OK, message=f"{label} {installed}")
    tested_range = newest if oldest == newest else f"{oldest} to {newest}"
    return Check(
        name=name,
        status=Status.WARNING,
        message=f"{label} {installed} is not a tested version; tested: {tested_range}.",
        remedy=f"Install version {newest}, or test your DAGs with this one.",
    )


def check_storage_clients(scheme: str | None) -> Iterator[Check]:
    """Check the packages that workers and the triggerer need to read tables on object stores.

    Args:
        scheme: The scheme of the checked table. Its client must be installed. None if no table is checked.
    """
    for client in STORAGE_CLIENTS:
        name = f"storage-{client.extra}"
        versions = {package: installed_version(package) for package in (client.package, client.provider)}
        missing = [package for package, installed in versions.items() if installed is None]
        label = f"{client.schemes[0]}://"
        if not missing:
            packages = ", ".join(f"{package} {installed}" for package, installed in versions.items())
            yield Check(name=name, status=Status.OK, message=f"{label} is readable with {packages}")
            continue
        is_required = scheme in client.schemes
        if client.package in missing:
            status = Status.ERROR if is_required else Status.SKIPPED
            message = f"{client.package} is not installed, so only Spark reads tables on {label}."
        else:
            status = Status.WARNING if is_required else Status.SKIPPED
            message = f"{client.provider} is not installed, so `storage_conn_id` cannot open {label}."
        remedy = f"Run: pip install 'airflow-provider-deltalite[{client.extra}]'" if is_required else ""
        yield Check(name=name, status=status, message=message, remedy=remedy)


def _release_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: `4.3.0rc1` gives (4, 3, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()
