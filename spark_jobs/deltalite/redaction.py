"""Redaction: finds secrets in settings and texts, and replaces them with stars.

Workers and jobs share these rules, so a job hides the same secrets as its worker. The name makes a setting secret, by
these patterns: Hadoop's `hadoop.security.sensitive-config-keys` (core-default.xml), Spark's `spark.redaction.regex`,
and the names that other systems use. In a text, a secret is a value with such a name in a common notation
(`name=value`, SQL, JSON, XML, properties files, command lines), a password in a URL, Oracle's `user/password@`, an
authorization header or a private key. A secret under a harmless name is not recognised.
Standard library only.
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


_HADOOP = (
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
# Names that count tokens are not secret, such as `max_tokens`, `token_count` and `tokens_per_second`.
_COUNTED = r"s?[._-]?(counts?|limit|budget|usage|per[._-]?(second|minute|hour|day|request|batch|document))$"
_QUANTITIES = ("max", "min", "num", "avg", "sum", "total", "input", "output", "prompt", "completion")
_QUANTITY_NAMES = "|".join(rf"(?<=(?<![a-z]){name}{between}token)" for name in _QUANTITIES for between in ("", "[._-]"))
_TOKEN = rf"token(?!{_COUNTED}|({_QUANTITY_NAMES})s$)"
_OTHER_SYSTEMS = (
    rf"secret|passw(or)?d|passphrase|passcode|pwd|{_TOKEN}|jaas|authorization|signature|credentials$|cookie$",
    r"(^|[._-]|key|store|user|db)pass$",
    r"(access|account|api|private|shared|encryption|signing|session|master|storage|subscription|hmac|fernet)[._-]?key",
    r"[._-]sas[._-]|[._-]sas$|^sas$|^sig$|connection[._-]?string|(^|[._-])(dsn|jwt|pat)$",
    r"auth[._-]user[._-]info$|redis[._-]auth$|^bearer$",
)
SECRET_NAMES = "(?i)" + "|".join((*_HADOOP, *_OTHER_SYSTEMS))
"""The pattern of secret names, in syntax common to Python and Java."""

_SECRET_NAME = _Pattern(SECRET_NAMES)
_FEW_SECRETS = 200
_SHORTEST = 5  # characters; Airflow's masker ignores shorter texts too, because they occur everywhere
_NO_SECRETS = frozenset({"true", "false", "simple", "default", "none", "null"})
_TEMPLATE = _Pattern(r"\{\{|\{%")
_LONGEST_STRUCTURE = 1_000_000  # characters of a text that is parsed as JSON or as a Python literal
STARS = "***"

# A text may be hostile, so each pattern runs in linear time: it starts only at the start of a name, and parts that
# could match up to the end of the text have a maximal length.
_QUOTED = r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'"
_LONGEST_PASSWORD = 512  # characters, in an address
_BEGIN = r"(?<![\w.+-])"  # the start of a name, so that a long word is searched once
# `name=value`, as in JDBC addresses, connection strings of Azure and query strings.
_ASSIGNED = _Pattern(rf"{_BEGIN}([\w.-]+)=")
_ASSIGNED_VALUE = _Pattern(rf"{_QUOTED}|\{{[^}}]{{0,{_LONGEST_PASSWORD}}}\}}|[^&;,\s]+")
# `-Dname=value` in Java options; only white space ends the value.
_JAVA_PROPERTY = _Pattern(r"-D([\w.-]+)=")
_ENCLOSING = ('""', "''", "{}")
_JAVA_VALUE = _Pattern(rf"{_QUOTED}|\S+")
# `"name": "value"` in JSON and in printed Python dictionaries.
_MEMBER = _Pattern(rf"""["']([\w.-]+)["']\s*:\s*({_QUOTED})""")
_HEADER = _Pattern(rf"{_BEGIN}([\w.-]+)\s*:[ \t]+(?:(?:Bearer|Basic|Digest|Token|ApiKey)[ \t]+)?(\S+)")
_BEARER = _Pattern(r"\b(?:Bearer|Basic)\s+([\w.~+/=-]{8,})")
# `name = "value"` of a JAAS login module; white space may surround the equals sign.
_JAAS_OPTION = _Pattern(rf"{_BEGIN}([\w.-]+)\s*=\s*({_QUOTED}|[^\s;]+)")
_LOGIN_MODULE = "LoginModule"
# `name 'value'`, `name = 'value'`, `name => 'value'` in SQL and in programs.
_QUOTED_OPTION = _Pattern(rf"{_BEGIN}([\w.-]+)['\"`]?\s{{0,9}}(?:(?:=>|:=|=)\s{{0,9}})?({_QUOTED})")
# A line `name = value` of a properties file or of an INI file, with a blank before the equals sign.
_PROPERTY_LINE = _Pattern(r"^[ \t]*([\w.-]+)[ \t]+=[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
# A line `a.name value` of spark-defaults.conf.
_CONFIGURATION_LINE = _Pattern(r"^[ \t]*([\w-]+\.[\w.-]+)[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_COMMAND_OPTION = _Pattern(r"(?<!\S)--([\w.-]+)[ \t]+(\S+)")
_ELEMENT = _Pattern(rf"<([\w.-]+)>([^<]{{1,{_LONGEST_PASSWORD}}})</")
_HADOOP_PROPERTY = _Pattern(rf"<name>([\w.-]+)</name>\s{{0,99}}<value>([^<]{{1,{_LONGEST_PASSWORD}}})</value>")
_NAMED = (
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
_WITHOUT_NAME = (
    _Pattern(rf"{_BEGIN}[A-Za-z][\w+.-]*://[^/\s:@]*:([^/\s]+)@"),
    # A password with a slash.
    _Pattern(rf"{_BEGIN}[A-Za-z][\w+.-]*://[^/\s:@]*:(?!\d+/)([^\s@]{{1,{_LONGEST_PASSWORD}}})@"),
    _Pattern(r"https?://([^/\s:@]{16,})@"),  # a token in the place of the user
    _Pattern(rf"oracle:\w+:[^/\s@:]+/({_QUOTED}|[^\s\"']{{1,{_LONGEST_PASSWORD}}})@", re.IGNORECASE),
    _Pattern(rf"(?<![\w/.])\w+/({_QUOTED}|[^\s/@\"']+)@(?://|\()"),
    _Pattern(rf"\bIDENTIFIED\s{{1,9}}BY\s{{1,9}}(?:PASSWORD\s{{1,9}})?({_QUOTED}|[^\s;]+)", re.IGNORECASE),
    _Pattern(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN).)+?-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL),
)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME.compiled.search(name) is not None


def shows_secret(name: str, value: str) -> bool:
    """Whether a setting has a secret name, or its value contains a secret of any length."""
    return any(secret and secret.lower() not in _NO_SECRETS for secret in _secrets(value, name))


def secret_values(settings: object, name: str = "") -> Iterator[str]:
    """Yield the secrets in a structure of mappings and lists: values under secret keys, and secrets inside texts.

    A text that is itself a structure (JSON or a Python literal) is searched like one. Each secret is yielded in every
    spelling that a log may show: single lines, URL-decoded, and escaped as in JSON and in Python. Secrets of fewer than
    five characters are left out, because they occur in harmless texts.
    """
    for secret in _secrets(settings, name):
        yield from _worth_hiding(_spellings(secret))


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
            yield from _in_text(settings)
            structure = _structure(settings)
            if structure is not None:
                yield from _secrets(structure, name)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with stars in place of the secrets that it contains and of the given secrets."""
    hidden = sorted({*secrets, *secret_values(text)}, key=len, reverse=True)  # one may be the start of another
    if len(hidden) > _FEW_SECRETS:
        return _redacted_in_one_pass(text, hidden)
    for secret in hidden:
        text = text.replace(secret, STARS)
    return text


def _redacted_in_one_pass(text: str, hidden: Collection[str]) -> str:
    """Redact like `redacted`, in a time independent of the number of secrets; the longest match at each place wins."""
    lengths: dict[str, set[int]] = {}
    for secret in hidden:
        lengths.setdefault(secret[:_SHORTEST], set()).add(len(secret))
    longest_first = {begin: sorted(sizes, reverse=True) for begin, sizes in lengths.items()}
    known, parts, at, kept_from = frozenset(hidden), list[str](), 0, 0
    while at < len(text):
        candidates = longest_first.get(text[at : at + _SHORTEST], ())
        length = next((size for size in candidates if text[at : at + size] in known), 0)
        if length:
            parts += (text[kept_from:at], STARS)
            kept_from = at + length
        at += length or 1
    return "".join([*parts, text[kept_from:]])


def _in_text(text: str) -> Iterator[str]:
    for name, value in _named_in(text):
        if is_secret(name) and not _is_same_column(name, value):
            yield from _without_quotes(value)
    for value in _SHARED_ACCESS_SIGNATURE.compiled.findall(text) + _BEARER.compiled.findall(text):
        yield from _without_quotes(value)
    for pattern in _WITHOUT_NAME:
        for value in pattern.compiled.findall(text):
            yield from _without_quotes(value)


def _named_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a text that may be secrets."""
    yield from _assigned_in(text, _ASSIGNED.compiled, _ASSIGNED_VALUE.compiled)
    yield from _assigned_in(text, _JAVA_PROPERTY.compiled, _JAVA_VALUE.compiled)
    for pattern in _NAMED:
        yield from pattern.compiled.findall(text)
    if _LOGIN_MODULE in text:
        yield from _JAAS_OPTION.compiled.findall(text)


def _assigned_in(text: str, name: re.Pattern[str], value: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the assignments to secret names, including nested ones such as `url=jdbc:x?password=y`."""
    at = 0
    while (assigned := name.search(text, at)) is not None:
        at = assigned.end()
        if is_secret(assigned[1]) and (match := value.match(text, at)) is not None:
            yield assigned[1], match[0]
            is_enclosed = len(match[0]) > 1 and match[0][0] + match[0][-1] in _ENCLOSING
            at = at + 1 if is_enclosed else match.end()  # an enclosed value may hold more assignments


def _is_same_column(name: str, value: str) -> bool:
    """Whether the value is a column of the same name, as in the condition `t.account_key=s.account_key`."""
    table, _, column = value.rstrip(")").rpartition(".")
    return table.replace(".", "").isidentifier() and column.isidentifier() and column == name.rpartition(".")[2]


def _without_quotes(value: str) -> Iterator[str]:
    """Yield the value, and the value without quotes and brackets that may belong to the surrounding text."""
    yield value
    if value[0] in "\"'{" and len(value) > 1:
        yield value[1:-1]
    yield value.rstrip("\"')]}>;")


def _spellings(secret: str) -> Iterator[str]:
    for text in dict.fromkeys((secret, unquote(secret))):
        yield from (text, text.strip(), *text.splitlines(), json.dumps(text)[1:-1], repr(text)[1:-1])


def _worth_hiding(values: Iterable[str]) -> Iterator[str]:
    return (
        value
        for value in values
        if len(value) >= _SHORTEST and value.lower() not in _NO_SECRETS and not _TEMPLATE.compiled.search(value)
    )


def _structure(text: str) -> object:
    """Return the mapping or list that the text represents, or None."""
    start = text.lstrip()[:1]
    if not start or start not in "{[" or len(text) > _LONGEST_STRUCTURE:
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            structure: object = parse(text.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # a set of sets is a TypeError
            continue
        if isinstance(structure, Mapping | list):
            return structure
    return None
