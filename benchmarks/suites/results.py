"""The results of suites as JSON files: the seconds of each round, with machine, versions, scale and date."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.suites.cases import Case
from deltalite.version import VERSION

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The cases of a suite, and the conditions under which it ran. `minutes` is the time of the whole suite.

    `load_average` is that of the machine before the first suite: 0 means that no other process ran.
    """

    suite: str
    date: str
    scale: float
    rounds: int
    minutes: float
    load_average: float
    machine: dict[str, Any]
    versions: dict[str, str]
    cases: Sequence[Case]


def versions(spark_version: str, java_version: str, delta_spark_version: str) -> dict[str, str]:
    """Return the versions of everything that affects the times."""
    return {
        "deltalite": VERSION,
        "delta-spark": delta_spark_version,
        "delta-rs": importlib.metadata.version("deltalake"),
        "Spark": spark_version,
        "Java": java_version,
        "Python": platform.python_version(),
        "TPC-DS generator": f"tpcgen-cli {importlib.metadata.version('tpcgen-cli')}",
    }


def today() -> str:
    """Return the current date in UTC, for a result."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def save(result: Result) -> None:
    """Write the file of a suite. A list of numbers takes one line."""
    text = json.dumps(dataclasses.asdict(result), indent=1)
    text = re.sub(r"\[\s+([\d.,\s]+?)\s+\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    (FOLDER / f"{result.suite}.json").write_text(text + "\n", encoding="utf-8")


def load(suite: str) -> Result | None:
    """Return the result of a suite, or None if it has never run."""
    path = FOLDER / f"{suite}.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text("utf-8"))
    return Result(**{**fields, "cases": [Case(**case) for case in fields["cases"]]})
