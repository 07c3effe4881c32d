"""The file from which `spark-submit` reads settings: the user's properties file, or else `spark-defaults.conf`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_deltalite.private_files import write_private
from airflow_provider_deltalite.properties_files import parse_properties, properties_text
from deltalite.errors import InvalidRequestError
from deltalite.installation.spark import conf_folder
from deltalite.redaction import shows_secret

if TYPE_CHECKING:
    from airflow_provider_deltalite.preflight import Launch

_FILE_OPTION = "--properties-file"
# spark-submit removes these characters around a value (org.apache.spark.util.Utils.trimExceptCRLF).
_REMOVED_CHARACTERS = "".join(chr(code) for code in range(33) if chr(code) not in "\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The settings in the file of one job.

    - `path`: the user's properties file, or None without one.
    - `text`: the content of the user's properties file; empty if `path` is None.
    - `settings`: the settings in the user's properties file or in `spark-defaults.conf`.
    - `is_reduced`: whether `without` has removed some of the settings.
    """

    path: str | None
    text: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    is_reduced: bool = False

    @property
    def secrets(self) -> dict[str, str]:
        """The settings that are secret by their name or their value."""
        return {name: value for name, value in self.settings.items() if shows_secret(name, value)}

    def without(self, names: Collection[str]) -> SettingsFile:
        """Return the file without these settings.

        If a setting is removed, `write_copy` ignores `text`, which still contains it.
        """
        kept_settings = {name: value for name, value in self.settings.items() if name not in names}
        is_reduced = self.is_reduced or len(kept_settings) < len(self.settings)
        return replace(self, settings=kept_settings, is_reduced=is_reduced)

    def write_copy(self, arguments: list[str], copy: str, settings: Mapping[str, str]) -> list[str]:
        """Write a private copy for `spark-submit`, and return the arguments with the copy as the properties file.

        :param arguments: The arguments of `spark-submit`.
        :param copy: The path of the copy.
        :param settings: Further settings, which take precedence over the settings of the file.
        """
        base = properties_text(self.settings) if self.is_reduced else self.text
        write_private(copy, properties_text(settings, base=base))
        if self.path is None:
            # A properties file replaces `spark-defaults.conf`. With --load-spark-defaults, spark-submit reads both. A
            # reduced copy has the settings of `spark-defaults.conf` that may stay, so spark-submit must not read both.
            defaults_option = [] if self.is_reduced else ["--load-spark-defaults"]
            return [*arguments, _FILE_OPTION, copy, *defaults_option]
        position = arguments.index(_FILE_OPTION) + 1
        return [*arguments[:position], copy, *arguments[position + 1 :]]


def read_properties_file(path: str | None) -> SettingsFile:
    """Return the user's properties file. If `path` is None, the result has no settings.

    :raises InvalidRequestError: The worker cannot read the file.
    """
    text = "" if path is None else _text_of(path)
    return SettingsFile(path=path, text=text, settings=_settings_in(text))


def read_settings_file(launch: Launch, path: str | None) -> SettingsFile:
    """Return the file that `spark-submit` reads.

    :param launch: How the job is submitted.
    :param path: The user's properties file, if there is one.
    :raises InvalidRequestError: The worker cannot read the file, or has no program `spark-submit`.
    """
    if path is not None:
        return read_properties_file(path)
    file = conf_folder(launch.binary, launch.environ) / "spark-defaults.conf"
    return SettingsFile(path=None, settings=_settings_in(_text_of(str(file)) if file.is_file() else ""))


def _settings_in(text: str) -> dict[str, str]:
    """Return the settings of Spark in a text. spark-submit ignores all other settings."""
    settings = parse_properties(text)
    return {name: value.strip(_REMOVED_CHARACTERS) for name, value in settings.items() if name.startswith("spark.")}


def _text_of(path: str) -> str:
    """Return the content of a file. Characters that are not valid UTF-8 are replaced, as in Spark."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InvalidRequestError(
            f"This worker cannot read the file {path} with the settings of spark-submit: {error}",
            remedy=f"Correct the path or the permissions of {path}.",
        ) from error
