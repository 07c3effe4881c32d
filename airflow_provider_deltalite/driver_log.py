"""Reads the log of a driver that ran in a YARN cluster, by the REST services of YARN.

The ResourceManager names the container of the driver and its node. The node's manager has the output of the container.
If YARN aggregates logs, the node's manager redirects to the log server (`yarn.log.server.web-service.url`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from requests.auth import AuthBase

# Such as `http://node:8042/node/containerlogs/container_1700000000000_0001_01_000001/root`.
_LOGS_PAGE = re.compile(r"(?P<node>https?://[^/\s\[\]]+)/node/containerlogs/(?P<container>container_\w+)/")
_TIMEOUT_SECONDS = (5, 30)  # to connect, to read
_MAX_BYTES = 2 * 1024 * 1024
# The node's manager puts a header before the content of a file, and a line after it.
_BEGIN, _END = "LogContents:\n", "\nEnd of LogType:"


class DriverLogError(Exception):
    """The driver's log cannot be read."""


def read_yarn_driver_log(resource_manager: str, application_id: str, auth: AuthBase | None = None) -> list[str]:
    """Return the newest lines of the driver's output: first those of stderr, then those of stdout.

    Args:
        resource_manager: The web address of the ResourceManager.
        application_id: The YARN application.
        auth: The authentication of the requests.

    Raises:
        DriverLogError: YARN has no container of the driver or no log of it, or does not answer.
    """
    page = _logs_page(_get(f"{resource_manager}/ws/v1/cluster/apps/{application_id}", auth))
    match = _LOGS_PAGE.match(page)
    if match is None:
        raise DriverLogError(f"YARN started no driver for {application_id}: the address of its logs is {page!r}.")
    files = f"{match['node']}/ws/v1/node/containers/{match['container']}/logs"
    texts = [_get(f"{files}/{name}?size=-{_MAX_BYTES}", auth) for name in ("stderr", "stdout")]
    return [line for text in texts for line in _content(text).splitlines()]


def _logs_page(application: str) -> str:
    try:
        page: Any = json.loads(application)["app"].get("amContainerLogs", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DriverLogError(f"The ResourceManager's answer has no application: {error!r}.") from error
    return str(page)


def _get(url: str, auth: AuthBase | None) -> str:
    """Return the text of an answer, up to a bound."""
    try:
        with requests.get(url, auth=auth, timeout=_TIMEOUT_SECONDS, stream=True) as answer:
            if answer.status_code != requests.codes.ok:
                raise DriverLogError(f"{url} returned HTTP {answer.status_code}.")
            content = bytearray()
            for part in answer.iter_content(64 * 1024):
                content += part
                if len(content) > 2 * _MAX_BYTES:
                    break
    except requests.RequestException as error:
        raise DriverLogError(f"{url} did not answer: {error}") from error
    return content.decode("utf-8", "replace")


def _content(text: str) -> str:
    """Return the content of a log file without the header and the last line of the node's manager."""
    _, begin, content = text.partition(_BEGIN)
    return content.rpartition(_END)[0] if begin and _END in content else text
