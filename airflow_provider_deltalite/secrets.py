"""Secrets among the settings of a task: which they are, and that neither logs nor lists of processes show them.

A setting is taken for a secret by its name, as Spark does it (`spark.redaction.regex`), with the names of storage keys
that Spark's own pattern passes over. Airflow is told the values, so that they are stars in rendered fields and in the
task's log; and `spark-submit` gets them in a properties file that its owner alone can read, because everybody on a
machine can read the arguments of a process. What is secret and has an innocent name is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from airflow.providers.common.compat.sdk import mask_secret

_SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|token|(access|account|api|private|shared)[._-]?key|[._-]sas[._-]|[._-]sas$|^sas$",
    re.IGNORECASE,
)
_SECRET_IN_TEXT = re.compile(r"(?:password|pwd|secret|token|sig)=([^&;,\s]+)", re.IGNORECASE)  # of a JDBC address
_SHORTEST = 5  # as Airflow's masker has it: shorter ones would turn up everywhere
_NO_SECRETS = frozenset({"true", "false", "simple", "default"})
_CONF = "--conf"


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def hide(given: object) -> None:
    """Tell Airflow's masker the secrets in a structure of settings."""
    for value in set(secret_values(given)):
        mask_secret(value)


def secret_values(given: object, name: str = "") -> Iterator[str]:
    """The secrets in a structure of mappings and lists, found by their keys; and those inside of texts."""
    match given:
        case Mapping():
            for key, value in given.items():
                yield from secret_values(value, str(key))
        case list() | tuple():
            for value in given:
                yield from secret_values(value, name)
        case str() if is_secret(name):
            yield from _worth_hiding([given, *given.splitlines()])  # a log is read line by line
        case str():
            yield from _worth_hiding(_SECRET_IN_TEXT.findall(given))


def _worth_hiding(values: Iterable[str]) -> Iterator[str]:
    return (value for value in values if len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS)


def without_secrets(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Arguments of `spark-submit` without the secret ones among `--conf name=value`, and these."""
    kept: list[str] = []
    secrets: dict[str, str] = {}
    remaining = iter(arguments)
    for argument in remaining:
        if argument != _CONF:
            kept.append(argument)
            continue
        setting = next(remaining)
        name, _, value = setting.partition("=")
        if is_secret(name):
            secrets[name] = value
        else:
            kept += [_CONF, setting]
    return kept, secrets


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
