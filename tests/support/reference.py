"""The reference implementation, delta-spark, in a separate environment and process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.required import not_here

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-reference"
READER = Path(__file__).with_name("delta_spark_reader.py")
_ENDS_WITHIN_SECONDS = 600


def read_by_delta_spark(tables: Iterable[tuple[Path, int, int]], folder: Path) -> dict[Path, Any]:
    """Read tables with delta-spark in one session; each table comes with its oldest and its newest version.

    An answer has `rows`, `versions` (rows by version), `history` (versions and operations) and `changes` (changed rows
    after the oldest version), or `error`.
    """
    if not (ENVIRONMENT / ".done").exists():
        not_here("delta-spark is not in .venv-reference: scripts/setup_reference.sh brings it, and needs Maven.")
    requests, answers = folder / "requests.json", folder / "answers.json"
    jars = sorted(str(jar) for jar in (ENVIRONMENT / "jars").glob("*.jar"))
    table_requests = [(str(table), oldest, newest) for table, oldest, newest in tables]
    requests.write_text(json.dumps({"jars": jars, "tables": table_requests}), encoding="utf-8")
    foreign = ("SPARK_", "PYSPARK_", "PYTHON")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    python = str(ENVIRONMENT / "bin" / "python")
    completed = subprocess.run(
        [python, str(READER), str(requests), str(answers)],
        env=environment
        | {"PATH": f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_ENDS_WITHIN_SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
    return {Path(table): body for table, body in json.loads(answers.read_text(encoding="utf-8")).items()}
