"""The programs of the Kubernetes for tests, and the network namespace in which they run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
BUILD = CHECKOUT / ".kubernetes"
NETWORK = "deltalite-kubernetes"
"""The name of the network namespace. It has no route to other machines."""


def program_environment() -> dict[str, str]:
    """The environment variables with which the built programs find each other."""
    debian = BUILD / "debian" / "usr"
    search_path = f"{BUILD / 'bin'}:{debian / 'bin'}:{debian / 'sbin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": search_path, "LD_LIBRARY_PATH": str(debian / "lib" / "x86_64-linux-gnu")}


def in_network(*command: str) -> list[str]:
    """Return a command that runs in the network namespace. `ip netns exec` would hide /sys/fs/cgroup."""
    return ["nsenter", f"--net=/run/netns/{NETWORK}", *command]


def run(
    *command: str, check: bool = True, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command. With `check`, its failure fails the test."""
    completed = subprocess.run(list(command), capture_output=True, text=True, check=False, env=environ)
    assert completed.returncode == 0 or not check, f"{command}: {completed.stderr}"
    return completed
