"""A stand-in for an installation of Spark and Java, with a `spark-submit` that writes archives of classes."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deltalite.installation.class_archive import ArchiveName, fitting_archive
from deltalite.installation.private_folder import open_private_folder

# The stand-in writes the archive as a JVM does, at its end and with exit code 1. Its last argument is the problem file.
_WRITE_ARCHIVE = """#!/bin/sh
echo run >>"${0%/spark/bin/*}/runs"
case "$SPARK_SUBMIT_OPTS" in -XX:ArchiveClassesAtExit=*) ;; *) exit 3 ;; esac
printf '%s' classes >"${SPARK_SUBMIT_OPTS#*=}"
for problem_file; do :; done
: >"$problem_file"
exit 1
"""
FAIL = """#!/bin/sh
echo run >>"${0%/spark/bin/*}/runs"
echo 'INFO Starting'
echo 'Cannot have non-empty directory in paths'
exit 1
"""


@dataclass(slots=True)
class StandIn:
    """A folder of Spark, a folder of Java, and the environment of a process that uses them."""

    folder: Path
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for file in ("spark/bin/spark-submit", "spark/jars/spark-core_2.13-4.3.0.jar", "java/bin/java", "java/release"):
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file)
        (self.folder / "java" / "bin" / "java").chmod(0o755)
        self.environ = {
            "JAVA_HOME": str(self.folder / "java"),
            "PATH": os.environ["PATH"],
            "SPARK_RUNS": str(self.folder / "runs"),
            "SPARK_HOME": str(self.folder / "spark"),
            "TMPDIR": tempfile.gettempdir(),
        }
        self.set_program(_WRITE_ARCHIVE)

    @property
    def program(self) -> str:
        """The path of the stand-in for `spark-submit`."""
        return str(self.folder / "spark" / "bin" / "spark-submit")

    @property
    def runs(self) -> int:
        """The number of runs of the stand-in for `spark-submit`."""
        log = self.folder / "runs"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def set_program(self, script: str) -> None:
        """Replace the stand-in for `spark-submit`."""
        Path(self.program).write_text(script)
        Path(self.program).chmod(0o755)

    @property
    def name(self) -> ArchiveName:
        """The name of the archive that fits."""
        folder = open_private_folder()
        assert folder is not None
        name = fitting_archive(folder, self.program, self.environ)
        assert name is not None
        return name


def stand_in_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Make the stand-in, and a temporary folder that only this test uses."""
    temporary_folder = tmp_path / "temporary"
    temporary_folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_folder))
    return StandIn(tmp_path)
