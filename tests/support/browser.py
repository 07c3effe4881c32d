"""A headless Chromium for tests, driven through chromedriver by the W3C WebDriver protocol.

Debian's packages `chromium` and `chromium-driver` have both programs. A test without them is skipped.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.ports import free_ports

T = TypeVar("T")
_ELEMENT_KEY = "element-6066-11e4-a52e-4f735466cecf"
"""The protocol puts the id of an element under this key."""
HEADLESS_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
"""The options of Chromium without a display and without network."""


class BrowserError(Exception):
    """The browser refused a command, or a wait timed out."""


def is_browser_installed() -> bool:
    """Whether Chromium and chromedriver are on PATH."""
    return all(shutil.which(program) for program in ("chromium", "chromedriver"))


class Browser:
    """One window. Selectors are CSS selectors in the current frame."""

    def __init__(self, url: str, size: tuple[int, int]) -> None:
        self._sessions_url = f"{url}/session"
        self._session_path = ""
        options = [*HEADLESS_OPTIONS, f"--window-size={size[0]},{size[1]}"]
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": options},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._send("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self._session_path = f"/{answer['sessionId']}"

    def open(self, url: str) -> None:
        """Load a page."""
        self._send("POST", "/url", {"url": url})

    @property
    def url(self) -> str:
        """The address of the window."""
        return self._send("GET", "/url")

    def enter_frame(self, selector: str = "iframe") -> None:
        """Wait for a frame, and make it the current one."""
        self._send("POST", "/frame", {"id": self._wait_for(selector)})

    def leave_frame(self) -> None:
        """Make the page of the window the current frame."""
        self._send("POST", "/frame", {"id": None})

    def click(self, selector: str) -> None:
        """Wait for an element and click it."""
        self._send("POST", f"{self._path_of_element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Wait for an element and type a text into it."""
        self._send("POST", f"{self._path_of_element(selector)}/value", {"text": text})

    def text(self, selector: str = "body") -> str:
        """Wait for an element; returns its visible text."""
        return self._send("GET", f"{self._path_of_element(selector)}/text")

    def run(self, script: str) -> Any:
        """Run the body of a JavaScript function in the current frame; returns its result."""
        return self._send("POST", "/execute/sync", {"script": script, "args": []})

    def messages(self) -> list[str]:
        """The messages in the console since the last call, such as violations of a Content-Security-Policy."""
        return [entry["message"] for entry in self._send("POST", "/se/log", {"type": "browser"})]

    def take_picture(self, file: Path) -> None:
        """Write a PNG of the window."""
        file.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))

    def until(self, description: str, condition: Callable[[], T], *, timeout: float = 60) -> T:
        """Call `condition` until its value is true; returns this value."""
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise BrowserError(f"Waiting until {description}: timed out.")
            time.sleep(0.2)
        return value

    def close(self) -> None:
        """Close the window and the browser."""
        self._send("DELETE", "")

    def _path_of_element(self, selector: str) -> str:
        return f"/element/{self._wait_for(selector)[_ELEMENT_KEY]}"

    def _wait_for(self, selector: str) -> dict[str, str]:
        command = {"using": "css selector", "value": selector}
        return self.until(f"there is {selector}", lambda: self._send("POST", "/elements", command))[0]

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        url = self._sessions_url + self._session_path + path
        request = Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urlopen(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except HTTPError as error:
            with error:
                raise BrowserError(f"{method} {path}: {error.read().decode(errors='replace')[:1000]}") from error


@contextmanager
def open_browser(*, size: tuple[int, int] = (1500, 950)) -> Iterator[Browser]:
    """Start a browser, and end it with its driver."""
    [port] = free_ports(1)
    driver = subprocess.Popen(
        [str(shutil.which("chromedriver")), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        browser = _start(f"http://127.0.0.1:{port}", size)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        driver.terminate()
        driver.wait(timeout=20)


def _start(url: str, size: tuple[int, int]) -> Browser:
    deadline = time.monotonic() + 60
    while True:
        try:
            return Browser(url, size)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
