"""Keeps the secrets of a task out of rendered fields, logs and lists of processes.

`deltalite.redaction` decides what is secret. Airflow's masker is told these values around the rendering of templates,
so that it shows stars in rendered fields and in the task's log. `spark-submit` gets secret settings in a properties
file that its owner alone can read, because everybody on a machine can read the arguments of a process; options for the
JVM of the driver, which would be arguments of `java`, go into a file of their own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret

_CONF = "--conf"
# Options of spark-submit and the settings that stand for them (org.apache.spark.deploy.SparkSubmitArguments).
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
    """For operators and sensors: Airflow hides the secrets in their fields wherever it shows or stores them.

    Airflow renders a mapped operator by this method alone, and any other one by it too.
    """

    template_fields: Any

    def secrets_shown(self) -> object:
        """The values that may hold secrets: what Airflow shows of this task, by name."""
        return {name: getattr(self, name, None) for name in self.template_fields}

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Airflow's own. Literal secrets are hidden before it, since Airflow logs a template that it cannot render."""
        hide(self.secrets_shown())
        try:
            super()._do_render_template_fields(  # type: ignore[misc]  # Airflow's templater is behind this class
                parent, template_fields, context, jinja_env, seen_oids
            )
        finally:
            hide(self.secrets_shown())


def hide(given: object) -> None:
    """Tell Airflow's masker the secrets in a structure of settings."""
    from deltalite.redaction import secret_values

    for value in set(secret_values(given)):
        mask_secret(value)


def without_secrets(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Arguments of `spark-submit` without the secret ones, and the settings that say the same."""
    from deltalite.redaction import shows_secret

    kept: list[tuple[str, ...]] = []
    secrets: dict[str, str] = {}
    remaining = iter(arguments)
    for argument in remaining:
        if argument == _CONF:
            pair = (argument, next(remaining))
            name, _, value = pair[1].partition("=")
        elif argument in _SETTING_OF_OPTION:
            pair = (argument, next(remaining))
            name, value = _SETTING_OF_OPTION[argument], pair[1]
        else:
            kept.append((argument,))
            continue
        if shows_secret(name, value):
            if argument == _CONF:
                secrets.setdefault(name, value)  # an option of spark-submit wins over a setting
            else:
                secrets[name] = value
                kept = [other for other in kept if not _sets(other, name)]
        else:
            kept.append(pair)
    return [argument for pair in kept for argument in pair], secrets


def _sets(argument: tuple[str, ...], name: str) -> bool:
    return argument[0] == _CONF and argument[1].startswith(f"{name}=")


def java_options_in_files(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The settings, with options for the driver's JVM replaced by the name of a private file that holds them.

    `java` reads `@file` on its command line, so that a list of processes shows the name of the file.
    """
    replaced = dict(settings)
    for name in _DRIVER_JAVA_OPTIONS:
        if name in replaced:
            replaced[name] = java_options_file(replaced[name], folder / f"{name}.args")
    return replaced


def java_options_file(options: str, file: Path) -> str:
    """Write options of Java to a private file; the result names it on a command line."""
    quoted = (part.replace("\\", "\\\\").replace('"', '\\"') for part in shlex.split(options))
    write_private(str(file), "".join(f'"{part}"\n' for part in quoted))
    return f"@{file}"


def properties_text(settings: Mapping[str, str], *, base: str = "") -> str:
    """The text of a properties file with `settings`, which win over those of the text `base`."""
    lines = [f"{_escaped(name, is_name=True)}={_escaped(value)}" for name, value in settings.items()]
    return "\n".join([base, *lines, ""]).lstrip("\n")


def write_private(path: str, text: str) -> None:
    """Write a file that its owner alone can read."""
    file = Path(path)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _escaped(text: str, *, is_name: bool = False) -> str:
    """As `java.util.Properties` reads it back."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if is_name:
        return re.sub(r"([ :=#!])", r"\\\1", escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped
