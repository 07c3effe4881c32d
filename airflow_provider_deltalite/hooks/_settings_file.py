"""The file from which `spark-submit` reads settings: the user's properties file, or else `spark-defaults.conf`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_deltalite.properties_files import parse_properties, properties_text
from airflow_provider_deltalite.secrets import write_private
from deltalite.errors import InvalidRequestError
from deltalite.installation.spark import find_spark_home
from deltalite.redaction import shows_secret

if TYPE_CHECKING:
    from airflow_provider_deltalite.preflight import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The settings in the file of one job.

    `path` is the user's properties file; None for `spark-defaults.conf`. `public` and `secrets` are its settings.
    """

    path: str | None
    public: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def replace(self, arguments: list[str], new_file: str, secrets: Mapping[str, str]) -> list[str]:
        """Write a private file for `spark-submit`, and return the arguments that name this file.

        :param arguments: The arguments of `spark-submit`.
        :param new_file: The path of the new file.
        :param secrets: Secret settings, which take precedence over the settings of the user's file. The new file does
            not contain `self.secrets`.
        """
        text_of_user = "" if self.path is None else _text_of(self.path)
        base = properties_text(self.public) if self.secrets else text_of_user
        write_private(new_file, properties_text(secrets, base=base))
        if self.path is not None:
            return [new_file if argument == self.path else argument for argument in arguments]
        loads_defaults = [] if self.secrets else ["--load-spark-defaults"]
        return [*arguments, "--properties-file", new_file, *loads_defaults]


def read_settings_file(launch: Launch, path: str | None) -> SettingsFile:
    """Return the settings of the file that `spark-submit` reads.

    :param launch: How the job is submitted.
    :param path: The user's properties file, if there is one.
    :raises InvalidRequestError: The worker cannot read the user's file.
    """
    if path is None:
        folder = launch.environ.get("SPARK_CONF_DIR") or find_spark_home(launch.binary, launch.environ) / "conf"
        file = Path(folder, "spark-defaults.conf")
        text = _text_of(str(file)) if file.is_file() else ""
    else:
        text = _text_of(path)
    # spark-submit ignores other settings, and removes blanks around a value.
    settings = {name: value.strip() for name, value in parse_properties(text).items() if name.startswith("spark.")}
    secrets = {name: value for name, value in settings.items() if shows_secret(name, value)}
    public = {name: value for name, value in settings.items() if name not in secrets}
    return SettingsFile(path=path, public=public, secrets=secrets)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            f"This worker cannot read the file {path} with the settings of spark-submit: {error}",
            remedy="Correct `properties_file`, or the file and its permissions. It must be a text in UTF-8.",
        ) from error
