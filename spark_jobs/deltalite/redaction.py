"""Redaction: finds secrets in settings and texts, and replaces them with stars.

Workers and jobs share these rules, so a job hides the same secrets as its worker. A setting is secret if its name
matches one of these patterns:

- Hadoop's `hadoop.security.sensitive-config-keys` (core-default.xml)
- Spark's `spark.redaction.regex`
- names that other systems use

A text contains a secret in one of these forms:

- a value with a secret name in a common notation (`name=value`, SQL, JSON, XML, properties files, command lines)
- a password in a URL, or Oracle's `user/password@`
- an authorization header, or a private key

A secret with a harmless name is not recognised. Standard library only.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from urllib.parse import unquote


class _Pattern:
    """A pattern that is compiled on first use, because each parse of a DAG file imports this module."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)


_HADOOP_NAMES = (
    r"secret$",
    r"password$",
    r"ssl.keystore.pass$",
    r"fs.s3a.server-side-encryption.key",
    r"fs.s3a.*.server-side-encryption.key",
    r"fs.s3a.encryption.algorithm",
    r"fs.s3a.encryption.key",
    r"fs.s3a.encryption.context",
    r"fs.s3a.secret.key",
    r"fs.s3a.*.secret.key",
    r"fs.s3a.session.key",
    r"fs.s3a.*.session.key",
    r"fs.s3a.session.token",
    r"fs.s3a.*.session.token",
    r"fs.azure.account.key.*",
    r"fs.azure.oauth2.*",
    r"fs.adl.oauth2.*",
    r"fs.gs.encryption.*",
    r"fs.gs.proxy.*",
    r"fs.gs.auth.*",
    r"credential$",
    r"oauth.*secret",
    r"oauth.*password",
    r"oauth.*token",
    r"hadoop.security.sensitive-config-keys",
)
# Settings that count tokens are not secret, such as `max_tokens`, `token_count` and `tokens_per_second`.
_COUNT_SUFFIX = r"s?[._-]?(counts?|limit|budget|usage|per[._-]?(second|minute|hour|day|request|batch|document))$"
_COUNT_PREFIXES = ("max", "min", "num", "avg", "sum", "total", "input", "output", "prompt", "completion")
_AFTER_COUNT_PREFIX = "|".join(
    rf"(?<=(?<![a-z]){prefix}{separator}token)" for prefix in _COUNT_PREFIXES for separator in ("", "[._-]")
)
_TOKEN = rf"token(?!{_COUNT_SUFFIX}|({_AFTER_COUNT_PREFIX})s$)"
_OTHER_NAMES = (
    rf"secret|passw(or)?d|passphrase|passcode|pwd|{_TOKEN}|jaas|authorization|signature|credentials$|cookie$",
    r"(^|[._-]|key|store|user|db)pass$",
    r"(access|account|api|private|shared|encryption|signing|session|master|storage|subscription|hmac|fernet)[._-]?key",
    r"[._-]sas[._-]|[._-]sas$|^sas$|^sig$|connection[._-]?string|(^|[._-])(dsn|jwt|pat)$",
    r"auth[._-]user[._-]info$|redis[._-]auth$|^bearer$",
)
SECRET_NAMES = "(?i)" + "|".join((*_HADOOP_NAMES, *_OTHER_NAMES))
"""The pattern of secret names, in syntax common to Python and Java."""

_SECRET_NAME_PATTERN = _Pattern(SECRET_NAMES)
# With more secrets than this, one pass over the text is faster than a pass per secret.
_MANY_SECRETS = 200
# In characters. Airflow's masker ignores shorter texts too, because they occur everywhere.
_MIN_SECRET_LENGTH = 5
_HARMLESS_VALUES = frozenset({"true", "false", "simple", "default", "none", "null"})
_TEMPLATE = _Pattern(r"\{\{|\{%")
# The maximum length, in characters, of a text that is parsed as JSON or as a Python literal.
_MAX_STRUCTURE_LENGTH = 1_000_000
STARS = "***"

# A text may be hostile, so each pattern runs in linear time. A match begins only where a name begins. Each part that
# could match up to the end of the text has a maximum length.
_QUOTED = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
_MAX_PASSWORD_LENGTH = 512  # characters
# A name begins at the start of a word, so a pattern searches a long word only once.
_NAME_START = r"(?<![\w.+-])"
# `name=value`, as in JDBC addresses, connection strings of Azure and query strings.
_ASSIGNED = _Pattern(rf"{_NAME_START}([\w.-]+)=")
_ASSIGNED_VALUE = _Pattern(rf"{_QUOTED}|\{{[^}}]{{0,{_MAX_PASSWORD_LENGTH}}}\}}|[^&;,\s]+")
# `-Dname=value` in Java options; only white space ends the value.
_JAVA_PROPERTY = _Pattern(r"-D([\w.-]+)=")
_ENCLOSING_PAIRS = ('""', "''", "{}")
_JAVA_VALUE = _Pattern(rf"{_QUOTED}|\S+")
# `"name": "value"` in JSON and in printed Python dictionaries.
_MEMBER = _Pattern(rf"""["']([\w.-]+)["']\s*:\s*({_QUOTED})""")
_HEADER = _Pattern(rf"{_NAME_START}([\w.-]+)\s*:[ \t]+(?:(?:Bearer|Basic|Digest|Token|ApiKey)[ \t]+)?(\S+)")
_BEARER = _Pattern(r"\b(?:Bearer|Basic)\s+([\w.~+/=-]{8,})")
# `name = "value"` of a JAAS login module; white space may surround the equals sign.
_JAAS_OPTION = _Pattern(rf"{_NAME_START}([\w.-]+)\s*=\s*({_QUOTED}|[^\s;]+)")
_LOGIN_MODULE = "LoginModule"
# `name 'value'`, `name = 'value'`, `name => 'value'` in SQL and in programs.
_QUOTED_OPTION = _Pattern(rf"{_NAME_START}([\w.-]+)['\"`]?\s{{0,9}}(?:(?:=>|:=|=)\s{{0,9}})?({_QUOTED})")
# A line `name = value` of a properties file or of an INI file, with a blank before the equals sign.
_PROPERTY_LINE = _Pattern(r"^[ \t]*([\w.-]+)[ \t]+=[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
# A line `a.name value` of spark-defaults.conf.
_CONFIGURATION_LINE = _Pattern(r"^[ \t]*([\w-]+\.[\w.-]+)[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_COMMAND_OPTION = _Pattern(r"(?<!\S)--([\w.-]+)[ \t]+(\S+)")
_ELEMENT = _Pattern(rf"<([\w.-]+)>([^<]{{1,{_MAX_PASSWORD_LENGTH}}})</")
_HADOOP_PROPERTY = _Pattern(rf"<name>([\w.-]+)</name>\s{{0,99}}<value>([^<]{{1,{_MAX_PASSWORD_LENGTH}}})</value>")
_NAME_AND_VALUE_PATTERNS = (
    _MEMBER,
    _HEADER,
    _QUOTED_OPTION,
    _PROPERTY_LINE,
    _CONFIGURATION_LINE,
    _COMMAND_OPTION,
    _ELEMENT,
    _HADOOP_PROPERTY,
)
_SHARED_ACCESS_SIGNATURE = _Pattern(r"SharedAccessSignature[=\s]\s*([^;\s\"']+)", re.IGNORECASE)
_PATTERNS_WITHOUT_NAME = (
    _Pattern(rf"{_NAME_START}[A-Za-z][\w+.-]*://[^/\s:@]*:([^/\s]+)@"),
    # This password contains a slash.
    _Pattern(rf"{_NAME_START}[A-Za-z][\w+.-]*://[^/\s:@]*:(?!\d+/)([^\s@]{{1,{_MAX_PASSWORD_LENGTH}}})@"),
    # This address contains a token instead of a user name.
    _Pattern(r"https?://([^/\s:@]{16,})@"),
    _Pattern(rf"oracle:\w+:[^/\s@:]+/({_QUOTED}|[^\s\"']{{1,{_MAX_PASSWORD_LENGTH}}})@", re.IGNORECASE),
    _Pattern(rf"(?<![\w/.])\w+/({_QUOTED}|[^\s/@\"']+)@(?://|\()"),
    _Pattern(rf"\bIDENTIFIED\s{{1,9}}BY\s{{1,9}}(?:PASSWORD\s{{1,9}})?({_QUOTED}|[^\s;]+)", re.IGNORECASE),
    _Pattern(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN).)+?-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL),
)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME_PATTERN.compiled.search(name) is not None


def shows_secret(name: str, value: str) -> bool:
    """Whether the value of a setting is or contains a secret, however short. Values such as `true` are harmless."""
    return any(secret and secret.lower() not in _HARMLESS_VALUES for secret in _secrets(value, name))


def secret_values(settings: object, name: str = "") -> Iterator[str]:
    """Yield the secrets in a structure of mappings and lists: values under secret keys, and secrets inside texts.

    `name` is the name of the setting that holds the structure.

    A text that holds a structure, as JSON or as a Python literal, is parsed and searched too. Each secret is yielded in
    every spelling that a log may show: single lines, URL-decoded, and escaped as in JSON and in Python. Secrets of
    fewer than five characters and values such as `false` are left out, because they occur in harmless texts. Templates
    are left out too.
    """
    for secret in _secrets(settings, name):
        yield from _without_harmless(_spellings(secret))


def _secrets(settings: object, name: str) -> Iterator[str]:
    match settings:
        case Mapping():
            for key, value in settings.items():
                yield from _secrets(value, str(key))
        case list() | tuple() | set() | frozenset():
            for value in settings:
                yield from _secrets(value, name)
        case bytes():
            yield from _secrets(settings.decode("utf-8", "replace"), name)
        case int() | float() if is_secret(name):
            yield str(settings)
        case str():
            if is_secret(name) and not _is_same_column(name, settings):
                yield settings
            yield from _secrets_in_text(settings)
            structure = _parsed_structure(settings)
            if structure is not None:
                yield from _secrets(structure, name)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with stars in place of the secrets that it contains and of the texts in `secrets`."""
    # Longest first, because one secret may be the start of another.
    all_secrets = sorted({*secrets, *secret_values(text)}, key=len, reverse=True)
    if len(all_secrets) > _MANY_SECRETS:
        return _redacted_in_one_pass(text, all_secrets)
    for secret in all_secrets:
        text = text.replace(secret, STARS)
    return text


def _redacted_in_one_pass(text: str, secrets: Collection[str]) -> str:
    """Return the text with stars in place of the secrets; the longest secret at each position applies.

    The time does not depend on the number of secrets. Each secret has at least `_MIN_SECRET_LENGTH` characters.
    """
    lengths: dict[str, set[int]] = {}
    for secret in secrets:
        lengths.setdefault(secret[:_MIN_SECRET_LENGTH], set()).add(len(secret))
    lengths_by_start = {start: sorted(sizes, reverse=True) for start, sizes in lengths.items()}
    secret_set = frozenset(secrets)
    redacted_parts: list[str] = []
    position = unredacted_from = 0
    while position < len(text):
        candidate_lengths = lengths_by_start.get(text[position : position + _MIN_SECRET_LENGTH], ())
        length = next((size for size in candidate_lengths if text[position : position + size] in secret_set), 0)
        if length:
            redacted_parts += (text[unredacted_from:position], STARS)
            unredacted_from = position + length
        position += length or 1
    return "".join([*redacted_parts, text[unredacted_from:]])


def _secrets_in_text(text: str) -> Iterator[str]:
    for name, value in _names_and_values(text):
        if is_secret(name) and not _is_same_column(name, value):
            yield from _possible_secrets(value)
    for value in _SHARED_ACCESS_SIGNATURE.compiled.findall(text) + _BEARER.compiled.findall(text):
        yield from _possible_secrets(value)
    for pattern in _PATTERNS_WITHOUT_NAME:
        for value in pattern.compiled.findall(text):
            yield from _possible_secrets(value)


def _names_and_values(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names in a text and their values, which are secrets if the name is secret."""
    yield from _secret_assignments(text, _ASSIGNED.compiled, _ASSIGNED_VALUE.compiled)
    yield from _secret_assignments(text, _JAVA_PROPERTY.compiled, _JAVA_VALUE.compiled)
    for pattern in _NAME_AND_VALUE_PATTERNS:
        yield from pattern.compiled.findall(text)
    if _LOGIN_MODULE in text:
        yield from _JAAS_OPTION.compiled.findall(text)


def _secret_assignments(
    text: str, name_pattern: re.Pattern[str], value_pattern: re.Pattern[str]
) -> Iterator[tuple[str, str]]:
    """Yield the assignments to secret names, including nested ones such as `url=jdbc:x?password=y`."""
    position = 0
    while (name_match := name_pattern.search(text, position)) is not None:
        position = name_match.end()
        if is_secret(name_match[1]) and (value_match := value_pattern.match(text, position)) is not None:
            assigned_value = value_match[0]
            yield name_match[1], assigned_value
            is_enclosed = len(assigned_value) > 1 and assigned_value[0] + assigned_value[-1] in _ENCLOSING_PAIRS
            # An enclosed value may hold more assignments.
            position = position + 1 if is_enclosed else value_match.end()


def _is_same_column(name: str, value: str) -> bool:
    """Whether the value is a column of the same name, as in the condition `t.account_key=s.account_key`."""
    table, _, column = value.rstrip(")").rpartition(".")
    return table.replace(".", "").isidentifier() and column.isidentifier() and column == name.rpartition(".")[2]


def _possible_secrets(value: str) -> Iterator[str]:
    """Yield the value, and the value without quotes and brackets, which may belong to the surrounding text."""
    yield value
    if value[0] in "\"'{" and len(value) > 1:
        yield value[1:-1]
    yield value.rstrip("\"')]}>;")


def _spellings(secret: str) -> Iterator[str]:
    for text in dict.fromkeys((secret, unquote(secret))):
        yield from (text, text.strip(), *text.splitlines(), json.dumps(text)[1:-1], repr(text)[1:-1])


def _without_harmless(values: Iterable[str]) -> Iterator[str]:
    """Return the values that are not templates and that occur in no harmless text."""
    return (
        value
        for value in values
        if len(value) >= _MIN_SECRET_LENGTH
        and value.lower() not in _HARMLESS_VALUES
        and not _TEMPLATE.compiled.search(value)
    )


def _parsed_structure(text: str) -> object:
    """Return the mapping or list that the text represents; None for any other text, and for a very long text."""
    start = text.lstrip()[:1]
    if not start or start not in "{[" or len(text) > _MAX_STRUCTURE_LENGTH:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            structure: object = parse(text.strip())
        # `ast.literal_eval` raises TypeError for a set of sets.
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(structure, Mapping | list):
            return structure
    return None
