"""`make bench` says which benchmarks became slower since the last release."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# A benchmark with one pair. The peer takes ten microseconds, and this library takes `ratio` times as long.
SCRIPT = """
from measuring import TimedPair, print_table
pair = TimedPair(name="append", peer="delta-rs", target=9)
pair.deltalite_s, pair.peer_s = [{ratio}e-5, 9.0, {ratio}e-5], [1e-5, 1e-5, 1e-5]
print_table([pair])
"""


@pytest.fixture
def benchmarks(tmp_path):
    """A copy of the runner, with one benchmark that fails."""
    for name in ("run.py", "machine.py", "measuring.py", "release_ratios.py", "turns.py"):
        (tmp_path / name).write_text((BENCHMARKS / name).read_text())
    (tmp_path / "bench_broken.py").write_text("raise SystemExit(3)")
    return tmp_path


def run(benchmarks, *arguments, **ratio_by_script):
    for name, ratio in ratio_by_script.items():
        (benchmarks / f"{name}.py").write_text(SCRIPT.format(ratio=ratio))
    command = [sys.executable, str(benchmarks / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_ratio_that_grew_by_more_than_the_tolerance_is_named(benchmarks):
    assert run(benchmarks, "bench_a", "bench_b", "--record", bench_a=2.0, bench_b=3.0).returncode == 0
    recorded = json.loads((benchmarks / "last_release.json").read_text())
    assert [(item["script"], item["ratio"]) for item in recorded["ratios"]] == [("bench_a", 2.0), ("bench_b", 3.0)]
    again = run(benchmarks, "bench_a", "bench_b", bench_a=2.2, bench_b=3.6)
    assert "last release: 1 of 2\n" in again.stdout
    assert "append (bench_b, beside delta-rs): ratio 3.60, before 3.00" in again.stdout
    assert json.loads((benchmarks / "last_release.json").read_text()) == recorded


def test_a_recorded_run_keeps_the_ratios_of_other_scripts_with_their_machine_and_versions(benchmarks):
    run(benchmarks, "bench_a", "bench_b", "--record", bench_a=2.0, bench_b=3.0)
    file = benchmarks / "last_release.json"
    first = json.loads(file.read_text())
    this_run = first["runs"]["bench_a"]
    assert this_run["versions"]["pyspark"] and this_run["machine"]["cores"]
    other_run = {"machine": {"processor": "another", "cores": 64}, "versions": {"pyspark": "4.0.0"}}
    file.write_text(json.dumps({**first, "runs": {"bench_a": other_run, "bench_b": other_run}}))
    run(benchmarks, "bench_a", "--record", bench_a=4.0)
    recorded = json.loads(file.read_text())
    assert [(item["script"], item["ratio"]) for item in recorded["ratios"]] == [("bench_a", 4.0), ("bench_b", 3.0)]
    assert recorded["runs"] == {"bench_a": this_run, "bench_b": other_run}


def test_the_last_release_has_the_run_of_each_ratio():
    released = json.loads((BENCHMARKS / "last_release.json").read_text())
    assert set(released["runs"]) == {item["script"] for item in released["ratios"]}
    assert all(set(values) == {"machine", "versions"} for values in released["runs"].values())


def test_a_failed_benchmark_does_not_stop_the_others(benchmarks):
    process = run(benchmarks, bench_z=2.0)
    assert process.returncode == 1
    assert "failed: bench_broken" in process.stdout
    assert "last release: 0 of 0\nnot in the last release: 1\nappend (bench_z, beside delta-rs)" in process.stdout


def test_an_unknown_benchmark_is_refused_with_the_known_names(benchmarks):
    process = run(benchmarks, "bench_x")
    assert process.returncode == 2 and "no such benchmark: bench_x; choose from bench_broken" in process.stderr
