"""The digest of a request. Two task attempts have equal digests if the parameters that decide the rows are equal.

The digest covers the rendered fields that decide the rows. It omits:

- the `incidental_fields` of the request class, and Spark's settings;
- fields with their default value, also inside sources and clauses, so that a release with a new parameter computes the
  same digests for old requests;
- secret options of sources, and the secrets in their paths and in their other options, because a short secret can be
  guessed from its hash.

Most audits only check rows, and do not decide which rows are written. So the digest contains only the conditions of
audits of level `quarantine`, which leave rows out.

A query parameter whose name marks a secret, such as `password`, also decides the rows. So the digest contains a slow
hash of its value. Each field that the digest covers, such as `query` or `query_params`, also has a short digest, so
that an error can name the fields that differ.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from airflow_provider_deltalite.idempotency import RequestDigests
from deltalite.redaction import is_secret, secret_values
from deltalite.requests import DIGEST_SCHEME, CommitRequest, Source
from deltalite.requests.quarantine import rejecting_audits

_DIGEST_DIGITS, _SHORT_DIGEST_DIGITS = 32, 8  # numbers of hexadecimal digits
_SLOW_ROUNDS = 600_000
_PARTITION_COLUMN = re.compile(r"(?<=/)[\w.-]+=")  # `/day=` in the path of a partition


def request_digests(request: CommitRequest) -> RequestDigests:
    """Return the digests of a request."""
    decisive_fields = {
        name: value for name, value in _non_default_fields(request).items() if name not in request.incidental_fields
    }
    rejecting_conditions = {audit.rows for audit in rejecting_audits(getattr(request, "audits", ()))}
    if rejecting_conditions:
        decisive_fields["audits"] = sorted(rejecting_conditions)
    if "query_params" in decisive_fields:
        query_params = decisive_fields["query_params"].items()
        decisive_fields["query_params"] = {name: _hash_if_secret(name, value) for name, value in query_params}
    return RequestDigests(
        digest=DIGEST_SCHEME + _digest([request.kind, decisive_fields])[:_DIGEST_DIGITS],
        parameters={name: _digest(value)[:_SHORT_DIGEST_DIGITS] for name, value in decisive_fields.items()},
    )


def _non_default_fields(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their default, as JSON values."""
    changed_fields = (field for field in fields(instance) if getattr(instance, field.name) != _default_value(field))
    return {field.name: _json_value(getattr(instance, field.name)) for field in changed_fields}


def _json_value(value: Any) -> Any:
    match value:
        case Source():
            return _source_without_secrets(value)
        case Mapping():
            return {str(name): _json_value(member) for name, member in value.items()}
        case list() | tuple():
            return [_json_value(member) for member in value]
        case _ if hasattr(value, "__dataclass_fields__"):
            return _non_default_fields(value)
        case _:
            return value


def _default_value(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _source_without_secrets(source: Source) -> dict[str, Any]:
    """Return the fields of a source, without secret options and without the secrets in its addresses.

    The value of a partition column in the path (`/token=a/`) does not count as a secret.
    """
    values = _non_default_fields(source)
    if source.path is not None:
        values["path"] = _remove_secrets(source.path, secret_values(_PARTITION_COLUMN.sub("", source.path)))
    if source.options:
        options = {name: str(value) for name, value in source.options.items() if not is_secret(name)}
        values["options"] = {name: _remove_secrets(value, secret_values(value)) for name, value in options.items()}
    return values


def _remove_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "")
    return text


def _hash_if_secret(name: str, value: Any) -> Any:
    """Return the value of a query parameter, or a slow hash of the value if the name marks a secret."""
    if not is_secret(name):
        return value
    return hashlib.pbkdf2_hmac("sha256", json.dumps(value).encode(), b"deltalite", _SLOW_ROUNDS).hex()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
