"""Reads the exit code of the driver and the address of the ResourceManager from the output of `spark-submit`.

Airflow's hook keeps only the newest lines, and forgets the lines before a Java exception. Lines may quote the output of
the job, so a line counts only in the form in which Spark or the cluster prints it.
"""

from __future__ import annotations

import re

# YARN also reports the exit codes of containers. They may be codes of Spark itself, so they do not count.
_EXIT_CODE_IN_YARN_PATTERN = re.compile(r"User application exited with status ([0-9]{1,3})(?![0-9])")
_EXIT_CODE_IN_POD_PATTERN = re.compile(r"(?:[eE]xit ?[cC]ode:|exit_code=)\s*([0-9]{1,3})(?![0-9])")
# The tracking URL has the address of YARN's web proxy. Usually the ResourceManager runs the proxy.
_PROXY_ADDRESS_PATTERN = re.compile(r"\s*tracking URL: (https?://[^/\s]+)/proxy/application_[0-9]+_[0-9]+/")


class ClusterReports:
    """Reads the lines of `spark-submit`. `exit_code` is the last one reported, `proxy_address` the first."""

    def __init__(self, *, is_yarn: bool) -> None:
        self._exit_code_pattern = _EXIT_CODE_IN_YARN_PATTERN if is_yarn else _EXIT_CODE_IN_POD_PATTERN
        self.exit_code: int | None = None
        self.proxy_address: str | None = None

    def read(self, line: str) -> None:
        """Keep the exit code and the address of the proxy that the next line reports."""
        if (exit_code := self.exit_code_in(line)) is not None:
            self.exit_code = exit_code
        if self.proxy_address is None and (address := _PROXY_ADDRESS_PATTERN.match(line)):
            self.proxy_address = address[1]

    def exit_code_in(self, text: str) -> int | None:
        """Return the first exit code of the driver that `text` reports; None if it reports none."""
        match = self._exit_code_pattern.search(text)
        return None if match is None else int(match[1])
