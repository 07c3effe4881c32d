"""Runs benchmarks, and says what became slower since the last release.

Arguments are names of scripts, such as `bench_scan`; without names, all scripts run. With `--record`, the ratios
replace those of the same scripts in `last_release.json`. A script that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import RATIOS_FILE
from release_ratios import LAST_RELEASE, MeasuredRatio, comparison_lines, read_ratios, write_ratios

FOLDER = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Run the scripts; returns 1 if a script failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help="names of scripts, such as bench_scan")
    parser.add_argument("--record", action="store_true", help="store the ratios as those of the release")
    options = parser.parse_args(arguments)
    paths = {path.stem: path for path in sorted(FOLDER.glob("bench_*.py"))}
    if unknown := [name for name in options.scripts if name not in paths]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; choose from {', '.join(paths)}")
    failed, measured = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.scripts or paths:
            print(f"--- {name}", flush=True)
            ratios = Path(folder) / name
            ratios.touch()
            environ = {**os.environ, RATIOS_FILE: str(ratios)}
            if subprocess.run([sys.executable, str(paths[name])], env=environ, check=False).returncode:
                failed.append(name)
                continue
            measured += [MeasuredRatio.from_json(json.loads(line)) for line in ratios.read_text().splitlines()]
    print("", *comparison_lines(measured, read_ratios(LAST_RELEASE)), sep="\n")
    if options.record:
        write_ratios(LAST_RELEASE, measured)
        print(f"{LAST_RELEASE} has the new ratios.")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
