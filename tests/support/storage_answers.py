"""Answers of object stores to requests that they throttle or deny. A proxy sends them instead of the server."""

from __future__ import annotations

import json
from typing import Any

from tests.support.google_storage import GoogleStorage
from tests.support.http_proxy import Answer
from tests.support.object_stores import Azure


def google_error(status: int, reason: str = "", message: str = "") -> Answer:
    """Return an error of Google Cloud Storage."""
    error = {"code": status, "message": message, "errors": [{"domain": "global", "reason": reason, "message": message}]}
    return Answer(
        status=status, body=json.dumps({"error": error}).encode(), headers={"Content-Type": "application/json"}
    )


def throttling_answer(bucket: Any, status: int) -> Answer:
    """Return the answer of the storage of `bucket` to one of too many requests."""
    message = "Please reduce your request rate."
    if isinstance(bucket, GoogleStorage):
        return google_error(status, "rateLimitExceeded", message)
    return Answer(status=status, body=_xml_error("SlowDown", message))


def answer_to_expired_credentials(bucket: Any) -> Answer | None:
    """Return the answer of the storage of `bucket` to expired credentials; None if it is that to invalid ones."""
    if isinstance(bucket, Azure):
        return None
    if isinstance(bucket, GoogleStorage):
        return google_error(401, "authError", "Invalid Credentials")
    return Answer(status=400, body=_xml_error("ExpiredToken", "The provided token has expired."))


def answer_to_invalid_credentials(bucket: Any) -> Answer:
    """Return the answer of the storage of `bucket` to invalid credentials."""
    if isinstance(bucket, GoogleStorage):
        return google_error(403, "forbidden", "The account has no access to the object.")
    return Answer(status=403, body=_xml_error("InvalidAccessKeyId", "The key does not exist."))


def error_code(bucket: Any, answer: Answer) -> str:
    """Return the text by which an error of a job names the answer."""
    if isinstance(bucket, GoogleStorage):
        return str(answer.status)
    return answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


def _xml_error(code: str, message: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
