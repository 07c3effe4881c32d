"""The digest of what a task asks for: equal for two tries that would write the same rows.

It covers the rendered fields that decide the rows, and leaves out those that a request class calls incidental, Spark's
settings, and fields that have their default, also inside sources and clauses, so that a release which adds a parameter
keeps the digests of old requests. Values of secret options of sources are left out as well, because a hash of a short
secret can be guessed. A query parameter with a secret name decides rows too, so it enters by a slow hash.
Each parameter has a short digest of its own, which lets an error name the parameters that differ.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from airflow_provider_deltalite.idempotency import AskedRequest
from deltalite.redaction import is_secret, secret_values
from deltalite.requests import DIGEST_SCHEME, CommitRequest, Source

_WHOLE, _SHORT = 32, 8  # hexadecimal digits
_SLOW_ROUNDS = 600_000
_FOLDER_OF_VALUE = re.compile(r"(?<=/)[\w.-]+=")  # `/day=` in the path of a partition


def asked_request(request: CommitRequest) -> AskedRequest:
    """The digests of a request."""
    decisive = {name: value for name, value in _members(request).items() if name not in request.incidental}
    if "query_params" in decisive:
        decisive["query_params"] = {name: _parameter(name, one) for name, one in decisive["query_params"].items()}
    return AskedRequest(
        digest=DIGEST_SCHEME + _digest([request.kind, decisive])[:_WHOLE],
        parameters={name: _digest(value)[:_SHORT] for name, value in decisive.items()},
    )


def _members(record: Any) -> dict[str, Any]:
    """The fields of a dataclass that do not have their default, as JSON values."""
    changed = (field for field in fields(record) if getattr(record, field.name) != _default(field))
    return {field.name: _json_value(getattr(record, field.name)) for field in changed}


def _json_value(value: Any) -> Any:
    match value:
        case Source():
            return _without_secrets(value)
        case Mapping():
            return {str(name): _json_value(one) for name, one in value.items()}
        case list() | tuple():
            return [_json_value(one) for one in value]
        case _ if hasattr(value, "__dataclass_fields__"):
            return _members(value)
        case _:
            return value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _without_secrets(source: Source) -> dict[str, Any]:
    """A source without secret options, and without secrets in its addresses; a folder of a partition is no secret."""
    values = _members(source)
    if source.path is not None:
        values["path"] = _without(source.path, secret_values(_FOLDER_OF_VALUE.sub("", source.path)))
    if source.options:
        options = {name: str(value) for name, value in source.options.items() if not is_secret(name)}
        values["options"] = {name: _without(value, secret_values(value)) for name, value in options.items()}
    return values


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "")
    return text


def _parameter(name: str, value: Any) -> Any:
    if not is_secret(name):
        return value
    return hashlib.pbkdf2_hmac("sha256", json.dumps(value).encode(), b"deltalite", _SLOW_ROUNDS).hex()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
