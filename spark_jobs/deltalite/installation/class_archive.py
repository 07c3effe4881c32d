"""Archives of Spark's classes: where they are, which one fits a driver, and the JVM options that use it.

A JVM that maps an archive (class-data sharing) starts a small job in about half of the time, because it does not read
and verify the classes again. The archive is a dynamic one on top of the JDK's default archive. A JVM uses it if the
Java is the same, and if the class path begins with the jars from which the archive was made. Otherwise the JVM loads
the classes from the jars.

The name of an archive contains a digest of the Java, Spark's jars and the release of this package. So an upgrade leads
to another archive. An archive contains code that tasks run, so only files in the private folder of the user are used.
`class_archive_making.py` makes the archives.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltalite.installation.private_folder import is_private_file
from deltalite.installation.spark import find_java, find_spark_home
from deltalite.version import VERSION

ARCHIVE_PREFIX, ARCHIVE_SUFFIX, FAILURE_SUFFIX, USE_SUFFIX = "spark-classes-", ".jsa", ".failure", ".used"
JVM_OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"
"""The variable whose options bin/spark-class passes to the JVM of the driver."""
LOCK_FILE = "spark-classes.lock"
"""The file in the private folder that a process locks while it makes an archive."""
_FAILURE_MEMORY_SECONDS = 86_400.0
# Options that choose or write an archive, up to the ahead-of-time cache of Java 24.
_ARCHIVE_OPTION = re.compile(
    r"-Xshare\b|\bSharedArchiveFile\b|\bArchiveClassesAtExit\b|\bSharedArchiveConfigFile\b|\bDumpLoadedClassList\b"
    r"|\bSharedClassListFile\b|\bAutoCreateSharedArchive\b|\bUseSharedSpaces\b|\bAOT(Cache|Mode|Configuration)"
)
_CHARACTERS_TO_QUOTE = re.compile(r"""[\s"'\\]""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveName:
    """The name of the archive that fits one Spark and one Java, in the private folder of the user.

    The name of the file also has its size, because a JVM that maps an incomplete archive crashes.
    """

    folder: Path
    stem: str

    def find(self) -> Path | None:
        """Return the complete archive with this name, or None. An archive that another user may write to is ignored."""
        for path in self.folder.glob(f"{self.stem}-*{ARCHIVE_SUFFIX}"):
            if is_private_file(path) and path == self.path(path.stat().st_size):
                return path
        return None

    def path(self, size_bytes: int) -> Path:
        """Return the path of an archive of this size."""
        return self.folder / f"{self.stem}-{size_bytes}{ARCHIVE_SUFFIX}"

    def record_failure(self, reason: str) -> None:
        """Remember that this archive could not be made."""
        self._failure_file.write_text(reason, encoding="utf-8")

    def forget_failure(self) -> None:
        """Forget that this archive could not be made."""
        self._failure_file.unlink(missing_ok=True)

    def recent_failure(self, *, now: float) -> str | None:
        """Return the reason of the last failure to make this archive; None without a failure in the last 24 hours.

        Args:
            now: The time in seconds since 1970.
        """
        try:
            is_recent = now - self._failure_file.stat().st_mtime < _FAILURE_MEMORY_SECONDS
            return self._failure_file.read_text(encoding="utf-8") if is_recent else None
        except FileNotFoundError:
            return None

    @property
    def _failure_file(self) -> Path:
        return self.folder / f"{self.stem}{FAILURE_SUFFIX}"


def fitting_archive(folder: Path, program: str, environ: Mapping[str, str]) -> ArchiveName | None:
    """Return the name of the archive that fits the drivers of a spark-submit. The archive need not exist.

    The result is None if this machine does not know the Java (`spark-env.sh` may choose it), if the folder of Spark has
    no jars, or if the folder has a name that Java cannot take in an option.

    Args:
        folder: The private folder of the user.
        program: The path or name of spark-submit.
        environ: The environment of spark-submit.

    Raises:
        InvalidRequestError: There is no Java, or no such program.
    """
    java = find_java(program, environ)
    jars = find_spark_home(program, environ) / "jars"
    if java is None or not jars.is_dir():
        return None
    if os.pathsep in str(folder):  # a JVM would read such a path as two paths
        return None
    return ArchiveName(folder=folder, stem=f"{ARCHIVE_PREFIX}{_digest(Path(java), jars)[:20]}")


def _digest(java: Path, jars: Path) -> str:
    """Return the digest of all that an archive depends on.

    Times are whole seconds, as in the check of a JVM and in the layers of container images. The jars are in the order
    of the folder, because it is their order in the class path.
    """
    digest = hashlib.sha256(VERSION.encode())
    home = java.resolve().parent.parent
    release = home / "release"
    facts: list[object] = [home, release.read_bytes() if release.is_file() else b"", jars]
    files = [home / "lib" / "server" / "libjvm.so", home / "lib" / "modules"]
    files += [Path(entry.path) for entry in os.scandir(jars) if entry.name.lower().endswith(".jar")]
    for file in files:
        with suppress(FileNotFoundError):
            status = file.stat()
            facts.append((file.name, status.st_size, int(status.st_mtime)))
    for fact in facts:
        digest.update(repr(fact).encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()


def java_options(archive: Path) -> str:
    """Return the options with which a JVM uses an archive, in the form of `SPARK_SUBMIT_OPTS`.

    Without the second option a JVM that cannot use the archive prints warnings to its output.
    """
    return f"{archive_option('SharedArchiveFile', archive)} -Xlog:cds*=off"


def archive_option(name: str, archive: Path) -> str:
    """Return a Java option with the path of an archive, quoted if necessary."""
    option = f"-XX:{name}={archive}"
    if _CHARACTERS_TO_QUOTE.search(option):
        option = '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return option


def chooses_archive(options: str) -> bool:
    """Whether Java options of the user choose or write an archive."""
    return _ARCHIVE_OPTION.search(options) is not None


def record_use(archive: Path) -> None:
    """Record that a task uses an archive now.

    The function sets the modification time of a small file (`use_file`). If it set the time of the archive, a container
    would copy the archive out of its image.
    """
    with suppress(OSError):  # for example, a folder that the container mounts read-only
        use_file(archive).touch()


def use_file(archive: Path) -> Path:
    """Return the path of the file whose modification time is the last use of an archive."""
    return archive.with_name(archive.name + USE_SUFFIX)
