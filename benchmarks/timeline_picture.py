"""The picture of the steps of a small append, from the results of `task_timeline.py`."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.suites.plots import stacked_bars

RESULTS = Path(__file__).with_name("task_timeline.json")
PICTURE = Path(__file__).parent.parent / "docs" / "_static" / "task.svg"
STEPS = {
    "submit": "operator and spark-submit script",
    "jvm": "JVM starts",
    "session": "Python starts, the Spark session opens",
    "plan": "plan",
    "write": "write",
    "commit": "commit",
    "after_commit": "after the commit",
    "stop": "Spark stops, the operator returns",
}


def draw(path: Path) -> None:
    """Draw the picture into a file."""
    stacked_bars(json.loads(RESULTS.read_text())["seconds"], STEPS, path)
