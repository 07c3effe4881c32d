"""The reference implementation, delta-spark, in a separate environment and process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.java_options import QUICK_JVM_OPTIONS
from tests.support.required import skip_or_fail

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-reference"
PROGRAM = Path(__file__).with_name("delta_spark_program.py")


class DeltaSparkError(Exception):
    """delta-spark refused a statement or failed; the message is that of the engine."""


Answer = list[list[Any]] | DeltaSparkError
"""The rows of a statement, or the error of delta-spark."""


class DeltaSpark:
    """One session of delta-spark. It starts with the first statement, because a start takes seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def sql(self, statement: str) -> list[list[Any]]:
        """Run a statement; returns its rows as JSON values. Raises `DeltaSparkError` if delta-spark fails."""
        (rows,) = self.sql_all([statement])
        return rows

    def sql_all(self, statements: Sequence[str]) -> list[list[list[Any]]]:
        """Run all statements; returns the rows of each. Raises `DeltaSparkError` for the first one that failed."""
        self.send(statements)
        answers = [self.receive() for _ in statements]
        return [rows_or_raise(answer) for answer in answers]

    def send(self, statements: Sequence[str]) -> None:
        """Send statements without waiting. They run one after the other. Call `receive` once for each statement."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.writelines(json.dumps(statement) + "\n" for statement in statements)
        process.stdin.flush()

    def receive(self) -> Answer:
        """Wait for the oldest statement without an answer; returns its rows as JSON values, or its error."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"delta-spark ended: {self._log.read_text()[-4000:]}"
        answer = json.loads(line)
        if "error" in answer:
            return DeltaSparkError(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows

    def rows(self, table: Path | str, columns: str = "*", *, version: int | None = None) -> list[list[Any]]:
        """The rows of a table in a fixed order."""
        time_travel = "" if version is None else f" VERSION AS OF {version}"
        return in_order(self.sql(f"SELECT {columns} FROM delta.`{table}`{time_travel}"))

    def changes(self, table: Path | str, from_version: int) -> list[list[Any]]:
        """The change feed of a table in a fixed order, with types and versions, and without times."""
        feed = f"table_changes_by_path('{table}', {from_version})"
        return in_order(self.sql(f"SELECT * EXCEPT (_commit_timestamp) FROM {feed}"))

    def stop(self) -> None:
        """End the session."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "delta-spark.log"

    def _start(self) -> subprocess.Popen[str]:
        jars = sorted(str(jar) for jar in (ENVIRONMENT / "jars").glob("*.jar"))
        # Variables of the tests' Spark and Python would lead delta-spark to the wrong environment.
        removed_prefixes = ("SPARK_", "PYSPARK_", "PYTHON")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(removed_prefixes)}
        path = f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with self._log.open("w") as log:
            return subprocess.Popen(
                [str(ENVIRONMENT / "bin" / "python"), str(PROGRAM), *jars],
                env=environment
                | {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": QUICK_JVM_OPTIONS, "TZ": "UTC"},
                cwd=tempfile.mkdtemp(dir=self._folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
            )


def rows_or_raise(answer: Answer) -> list[list[Any]]:
    """Return the rows of an answer, or raise its error."""
    if isinstance(answer, DeltaSparkError):
        raise answer
    return answer


def in_order(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows sorted by their text. Python cannot compare nulls with values."""
    return sorted(rows, key=repr)


def skip_or_fail_if_missing() -> None:
    """Skip the test if delta-spark is not installed, or fail it if `DELTALITE_REQUIRE_ALL=1` is set."""
    if not (ENVIRONMENT / ".done").exists():
        skip_or_fail("delta-spark is not in .venv-reference: run scripts/setup_reference.sh, which needs Maven.")
