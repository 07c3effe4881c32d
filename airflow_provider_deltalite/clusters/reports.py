"""What the output of `spark-submit` says about a driver in a cluster: its exit code, and the address of YARN.

Airflow's hook keeps the newest lines only, and from a Java exception on none before it. Lines may quote the output of
the job, so a line counts only in the form in which Spark or the cluster prints it.
"""

from __future__ import annotations

import re

# YARN also reports exit codes of containers, which can be those of Spark itself.
_ENDED_IN_YARN = re.compile(r"User application exited with status ([0-9]{1,3})(?![0-9])")
_ENDED_IN_POD = re.compile(r"(?:[eE]xit ?[cC]ode:|exit_code=)\s*([0-9]{1,3})(?![0-9])")
# The ResourceManager has the proxy, unless it is a separate server.
_TRACKING_ADDRESS = re.compile(r"\s*tracking URL: (https?://[^/\s]+)/proxy/application_[0-9]+_[0-9]+/")


class ClusterReports:
    """Reads the lines of `spark-submit`. `exit_code` is the last one reported, `tracking_address` the first."""

    def __init__(self, *, is_yarn: bool) -> None:
        self._ended = _ENDED_IN_YARN if is_yarn else _ENDED_IN_POD
        self.exit_code: int | None = None
        self.tracking_address: str | None = None

    def read(self, line: str) -> None:
        """Keep what the next line says."""
        if (exit_code := self.exit_code_in(line)) is not None:
            self.exit_code = exit_code
        if self.tracking_address is None and (address := _TRACKING_ADDRESS.match(line)):
            self.tracking_address = address[1]

    def exit_code_in(self, text: str) -> int | None:
        """Return the exit code of the driver that a report of the cluster names first; None if it names none."""
        match = self._ended.search(text)
        return None if match is None else int(match[1])
