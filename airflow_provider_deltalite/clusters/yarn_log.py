"""Reads the log of a driver that ran in a YARN cluster, from the REST services of YARN.

The ResourceManager names the container of the driver and its node. The NodeManager has the output of the container.
If YARN aggregates logs, the NodeManager redirects to the log server (`yarn.log.server.web-service.url`). The
authentication for the ResourceManager is also used for these servers, because the ResourceManager names them.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import requests

from airflow_provider_deltalite.clusters.log_lines import MAX_BYTES, DriverLogError, lines_of
from deltalite.redaction import redacted

if TYPE_CHECKING:
    from requests.auth import AuthBase

# Example: http://node:8042/node/containerlogs/container_1700000000000_0001_01_000001/root
_LOGS_PAGE_PATTERN = re.compile(r"(?P<node>https?://[^/\s]+)/node/containerlogs/(?P<container>container_\w+)/")
_TIMEOUT_SECONDS = (5, 30)  # the limits for connecting and for reading
_MAX_ANSWER_SECONDS = 60.0  # the limit for one complete answer
# The NodeManager may move a log to the aggregated logs between two requests.
_ATTEMPTS, _PAUSE_SECONDS = 3, 2.0
# The NodeManager puts a header before the content of a file, and a line after it.
_BEGIN, _END = "LogContents:\n", "\nEnd of LogType:"
# The log server sends this text with HTTP 200, without a header. Source: LogWebServiceUtils of Hadoop.
_MISSING_LOG = "Can not find logs for container:"


def read_yarn_driver_log(resource_manager: str, application_id: str, auth: AuthBase | None = None) -> list[str]:
    """Return the newest lines of the driver's output: first those of stderr, then those of stdout.

    A long line is returned in several parts. If only one of the two files can be read, its lines are returned.

    Args:
        resource_manager: The web address of the ResourceManager.
        application_id: The YARN application.
        auth: The authentication of the requests.

    Raises:
        DriverLogError: YARN has no container of the driver or no log of it, or does not answer.
    """
    page_url = _logs_page_url(_get(f"{resource_manager}/ws/v1/cluster/apps/{application_id}", auth))
    match = _LOGS_PAGE_PATTERN.match(page_url)
    if match is None:
        raise DriverLogError(
            f"The ResourceManager names no address for the log of the driver of {application_id} ({page_url!r}). "
            "Either no driver started, or this user may not view the application."
        )
    logs_url = f"{match['node']}/ws/v1/node/containers/{match['container']}/logs"
    lines: dict[str, list[str]] = {"stderr": [], "stdout": []}
    errors = []
    for name in ("stdout", "stderr"):  # stdout has the result, so its error is raised
        try:
            lines[name] = _lines(_get_file_with_retries(f"{logs_url}/{name}?size=-{MAX_BYTES}", auth))
        except DriverLogError as error:
            errors.append(error)
    if len(errors) == len(lines):
        raise errors[0]
    return [*lines["stderr"], *lines["stdout"]]


def _logs_page_url(application_json: str) -> str:
    """Return the address of the web page with the driver's logs; empty if YARN has no such page."""
    try:
        url: Any = json.loads(application_json)["app"].get("amContainerLogs", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DriverLogError(f"The ResourceManager's answer describes no application: {error!r}.") from error
    return str(url)


def _get_file_with_retries(url: str, auth: AuthBase | None) -> str:
    """Return the text of a log file. Send at most three requests, with a pause between them."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return _get_file(url, auth)
        except DriverLogError:
            time.sleep(_PAUSE_SECONDS * attempt)
    return _get_file(url, auth)


def _get_file(url: str, auth: AuthBase | None) -> str:
    text = _get(url, auth)
    if text.startswith(_MISSING_LOG):
        raise DriverLogError(f"{redacted(url)} has no log: {text}.")
    return text


def _get(url: str, auth: AuthBase | None) -> str:
    """Return the text of an answer, without the beginning of a long answer."""
    deadline = time.monotonic() + _MAX_ANSWER_SECONDS
    content = bytearray()
    try:
        with requests.get(url, auth=auth, timeout=_TIMEOUT_SECONDS, stream=True) as answer:
            if answer.status_code != requests.codes.ok:
                raise DriverLogError(f"{redacted(url)} returned HTTP {answer.status_code}.")
            for part in answer.iter_content(64 * 1024):
                content += part
                del content[: -2 * MAX_BYTES]
                if time.monotonic() > deadline:
                    raise DriverLogError(f"{redacted(url)} sent its answer too slowly.")
    except requests.RequestException as error:
        raise DriverLogError(f"{redacted(url)} did not answer: {redacted(str(error))}") from error
    return content.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    """Return the lines of a log file, without the header and the last line that the NodeManager adds."""
    _, begin, content = text.partition(_BEGIN)
    return lines_of(content.rpartition(_END)[0] if begin and _END in content else text)
