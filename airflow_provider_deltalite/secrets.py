"""Keeps the secrets of a task out of rendered fields, logs and process lists.

`deltalite.redaction` decides which values are secret. This module passes them to Airflow's masker before and after
templates are rendered. So Airflow shows stars in rendered fields and in the task's log.

Every user of a machine can read the arguments of a process. So spark-submit gets secret settings in a properties file
that only its owner can read. spark-submit would pass the options of the driver's JVM to `java` as arguments, so these
options go into a separate private file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret

_CONF = "--conf"
# Options of spark-submit, with the equivalent settings (org.apache.spark.deploy.SparkSubmitArguments).
_SETTING_OF_OPTION = {
    "--archives": "spark.archives",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--exclude-packages": "spark.jars.excludes",
    "--files": "spark.files",
    "--jars": "spark.jars",
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--packages": "spark.jars.packages",
    "--py-files": "spark.submit.pyFiles",
    "--repositories": "spark.jars.repositories",
}
_DRIVER_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")


class HidesSecrets:
    """Mixin of operators and sensors that hides the secrets in their fields.

    Airflow calls `_do_render_template_fields` for every operator. For a mapped operator it calls no other method.
    """

    template_fields: Any

    def values_with_secrets(self) -> object:
        """Return the values that may contain secrets: the fields that Airflow shows, by name."""
        return {name: getattr(self, name, None) for name in self.template_fields}

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Render as Airflow does, and hide secrets before and after.

        Literal secrets are hidden before, because Airflow logs a template that it fails to render.
        """
        hide(self.values_with_secrets())
        try:
            super()._do_render_template_fields(  # type: ignore[misc]  # Airflow's templater follows this mixin
                parent, template_fields, context, jinja_env, seen_oids
            )
        finally:
            hide(self.values_with_secrets())


def hide(settings: object) -> None:
    """Pass the secrets in a structure of settings to Airflow's masker."""
    from deltalite.redaction import secret_values

    for value in set(secret_values(settings)):
        mask_secret(value)


def split_off_secrets(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return two parts of the arguments of spark-submit: those without secrets, and the others as settings by name."""
    from deltalite.redaction import shows_secret

    public_options: list[tuple[str, ...]] = []
    secret_settings: dict[str, str] = {}
    argument_iterator = iter(arguments)
    for argument in argument_iterator:
        if argument == _CONF:
            option = (argument, next(argument_iterator))
            name, _, value = option[1].partition("=")
        elif argument in _SETTING_OF_OPTION:
            option = (argument, next(argument_iterator))
            name, value = _SETTING_OF_OPTION[argument], option[1]
        else:
            public_options.append((argument,))
            continue
        if shows_secret(name, value):
            if argument == _CONF:
                secret_settings.setdefault(name, value)  # an option of spark-submit takes precedence over --conf
            else:
                secret_settings[name] = value
                public_options = [other for other in public_options if not _is_conf_of(other, name)]
        else:
            public_options.append(option)
    return [argument for option in public_options for argument in option], secret_settings


def _is_conf_of(option: tuple[str, ...], name: str) -> bool:
    """Whether an option is `--conf` with this setting."""
    return option[0] == _CONF and option[1].startswith(f"{name}=")


def move_java_options_to_files(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write the options of the driver's JVM to private files, and return the settings with the names of the files.

    `java` reads `@file` on its command line, so a process list shows only the name of the file.
    """
    new_settings = dict(settings)
    for name in _DRIVER_JAVA_OPTIONS:
        if name in new_settings:
            new_settings[name] = write_java_options(new_settings[name], folder / f"{name}.args")
    return new_settings


def write_java_options(options: str, file: Path) -> str:
    """Write options of Java to a private file, and return the argument that names the file."""
    write_private(str(file), java_arguments_text(shlex.split(options)))
    return f"@{file}"


def java_options(settings: Mapping[str, str]) -> list[str]:
    """Return the options of Java that set these settings of Spark, and those that the settings contain."""
    options: list[str] = []
    for name, value in settings.items():
        options += shlex.split(value) if name in _DRIVER_JAVA_OPTIONS else [f"-D{name}={value}"]
    return options


def split_java_options(setting: str, options: str) -> tuple[list[str], list[str]]:
    """Return two parts of the options of Java in a secret setting: the public options, and those with a secret.

    Raises:
        InvalidRequestError: The options have a quote without its end.
    """
    from deltalite.errors import InvalidRequestError
    from deltalite.redaction import shows_secret

    try:
        all_options = shlex.split(options)
    except ValueError as error:
        raise InvalidRequestError(
            f"The options of Java in {setting} are invalid: {error}.", remedy="Correct the quotes in the setting."
        ) from error
    secret_options = [option for option in all_options if shows_secret("", option)] or all_options
    return [option for option in all_options if option not in secret_options], secret_options


def java_arguments_text(arguments: Iterable[str]) -> str:
    """Return the text of a file with arguments, which `java` reads for the argument ``@file``."""
    return "".join(f'"{_quoted(argument)}"\n' for argument in arguments)


def _quoted(argument: str) -> str:
    """Escape an argument for quotes in a file of arguments."""
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def write_private(path: str, text: str) -> None:
    """Write a file that only its owner can read."""
    file = Path(path)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
