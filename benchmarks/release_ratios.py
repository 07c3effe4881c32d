"""The ratios of a run of the benchmarks, and what became slower since the last release.

`last_release.json` has the ratios of the last release. A ratio compares this library with a peer in one run, so it
depends less on the machine than a time does.
"""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import machine

LAST_RELEASE = Path(__file__).parent / "last_release.json"
# A benchmark is slower if its ratio exceeds the ratio of the last release by this factor.
TOLERANCE = 1.15
_PACKAGES = ("airflow-provider-deltalite", "apache-airflow", "deltalake", "pyarrow", "pyspark")


def median_ratio(deltalite_s: Sequence[float], peer_s: Sequence[float]) -> float:
    """Return the median time of this library, divided by that of a peer."""
    return statistics.median(deltalite_s) / statistics.median(peer_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRatio:
    """The times of this library and of a peer in one benchmark: the date, and the seconds of each round."""

    script: str
    name: str
    peer: str
    date: str
    deltalite_s: Sequence[float]
    peer_s: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median time of this library, divided by that of the peer."""
        return median_ratio(self.deltalite_s, self.peer_s)

    @property
    def key(self) -> tuple[str, str, str]:
        """The script, the name and the peer, which are the same in each run of this benchmark."""
        return self.script, self.name, self.peer

    def to_json(self) -> dict[str, Any]:
        """Return the values, with times rounded to microseconds."""
        return {
            "script": self.script,
            "name": self.name,
            "peer": self.peer,
            "date": self.date,
            "ratio": round(self.ratio, 3),
            "deltalite_s": [round(seconds, 6) for seconds in self.deltalite_s],
            "peer_s": [round(seconds, 6) for seconds in self.peer_s],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MeasuredRatio:
        """Return the ratio from the values that `to_json` returned."""
        return cls(**{name: values[name] for name in ("script", "name", "peer", "date", "deltalite_s", "peer_s")})


def read_ratios(path: Path) -> list[MeasuredRatio]:
    """Return the ratios in a file that `write_ratios` wrote; an empty list if the file does not exist."""
    return [MeasuredRatio.from_json(item) for item in json.loads(path.read_text())["ratios"]] if path.exists() else []


def write_ratios(path: Path, ratios: Iterable[MeasuredRatio]) -> None:
    """Write the ratios. `runs` has the machine and the versions of the packages of each script's run.

    Ratios and runs of other scripts stay.
    """
    measured = list(ratios)
    scripts = {ratio.script for ratio in measured}
    kept_ratios = [ratio for ratio in read_ratios(path) if ratio.script not in scripts]
    kept_runs = json.loads(path.read_text())["runs"] if path.exists() else {}
    versions = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    this_run = {"machine": machine(), "versions": versions}
    content = {
        "runs": dict(sorted({**kept_runs, **dict.fromkeys(scripts, this_run)}.items())),
        "ratios": [ratio.to_json() for ratio in sorted([*kept_ratios, *measured], key=lambda ratio: ratio.key)],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def comparison_lines(measured: Sequence[MeasuredRatio], released: Iterable[MeasuredRatio]) -> list[str]:
    """Return lines about the benchmarks that became slower, and about those that the last release does not have."""
    released_ratios = {ratio.key: ratio.ratio for ratio in released}
    compared = [item for item in measured if item.key in released_ratios]
    slower = [item for item in compared if item.ratio > TOLERANCE * released_ratios[item.key]]
    lines = [f"slower than {TOLERANCE} times the ratio of the last release: {len(slower)} of {len(compared)}"]
    lines += [f"{_title(item)}: ratio {item.ratio:.2f}, before {released_ratios[item.key]:.2f}" for item in slower]
    new = [item for item in measured if item.key not in released_ratios]
    if new:
        lines.append(f"not in the last release: {len(new)}")
        lines += [f"{_title(item)}: ratio {item.ratio:.2f}" for item in new]
    return lines


def _title(item: MeasuredRatio) -> str:
    return f"{item.name} ({item.script}, beside {item.peer})"
