"""The machine on which a benchmark runs."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def machine() -> dict[str, str | int | None]:
    """Return the processor, the number of cores, and the memory of this machine."""
    names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30),
    }
