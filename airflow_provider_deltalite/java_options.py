"""Splits and writes options of Java, so that process lists show no secret.

A process list shows the arguments of `java`. If `java` reads them from a file, the list shows only the file's name.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from airflow_provider_deltalite.private_files import write_private
from deltalite.errors import InvalidRequestError
from deltalite.redaction import shows_secret

_DRIVER_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")


def move_java_options_to_files(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the options of the driver's JVM to private files, and return the settings with the names of the files.

    Raises:
        InvalidRequestError: The options have a quote without its end.
    """
    new_settings = dict(settings)
    for name in _DRIVER_JAVA_OPTIONS:
        if name in new_settings:
            new_settings[name] = write_java_options(name, new_settings[name], folder)
    return new_settings


def write_java_options(setting: str, options: str, folder: Path) -> str:
    """Write the options of Java in a setting to a private file in a folder. Return the argument that names the file.

    Raises:
        InvalidRequestError: The options have a quote without its end.
    """
    file = folder / f"{setting}.args"
    write_private(str(file), java_arguments_text(_split(setting, options)))
    return f"@{file}"


def java_options(settings: Mapping[str, str]) -> list[str]:
    """Return the options of Java that set these settings of Spark, and those that the settings contain.

    Raises:
        InvalidRequestError: The options in a setting have a quote without its end.
    """
    options: list[str] = []
    for name, value in settings.items():
        options += _split(name, value) if name in _DRIVER_JAVA_OPTIONS else [f"-D{name}={value}"]
    return options


def split_java_options(setting: str, options: str) -> tuple[list[str], list[str]]:
    """Return two parts of the options of Java in a secret setting: the public options, and those with a secret.

    If no single option shows the secret, all options count as secret.

    Raises:
        InvalidRequestError: The options have a quote without its end.
    """
    all_options = _split(setting, options)
    secret_options = [option for option in all_options if shows_secret("", option)] or all_options
    return [option for option in all_options if option not in secret_options], secret_options


def java_arguments_text(arguments: Iterable[str]) -> str:
    """Return the text of a file with arguments, which `java` reads for the argument ``@file``."""
    return "".join(f'"{_escaped(argument)}"\n' for argument in arguments)


def _split(setting: str, options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InvalidRequestError(
            f"The options of Java in {setting} are invalid: {error}.", remedy="Correct the quotes in the setting."
        ) from error


def _escaped(argument: str) -> str:
    """Escape an argument that stands between quotes in a file of arguments."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
