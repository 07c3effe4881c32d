"""Keeps the secrets of a task out of the arguments of `spark-submit`.

Every user of a machine can read the arguments of a process. So `spark-submit` gets secret settings in a properties file
that only its owner can read.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltalite.redaction import shows_secret

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


def split_off_secrets(arguments: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return two parts of the arguments of spark-submit: those without secrets, and the secret ones as settings."""
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
