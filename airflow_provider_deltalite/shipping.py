"""Prepares the files that go to Spark with a task: the job's script, the library, the request, and secret settings.

The library is the installed `deltalite` package without the parts that no job imports, as a zip file for `--py-files`,
so that the driver runs the code of the worker. The name of the zip contains a hash of the sources and the Python
version, so an existing zip is not packed again. The zip is in a folder of this user below the temporary folder.
`cache_folder` says when the task uses a new folder instead.

The zip also has the compiled modules. So a driver with the worker's version of Python does not compile them, and each
job starts a second earlier. A driver with another version uses the sources.

Request and settings may contain passwords. Only the owner can open their folder, and the task removes the folder at its
end. A killed worker leaves files behind. Each task locks its folders, and a lock ends with its process. So a later task
removes unlocked folders after an hour. Before that, the job of a killed worker may still read its request.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import marshal
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from secrets import token_hex

from deltalite.installation.private_folder import (
    FOLDER_PREFIX,
    JOB_FOLDER_PREFIX,
    is_unlocked,
    lock,
    open_private_folder,
    temporary_private_folder,
)

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can store
_REGULAR_FILE = (stat.S_IFREG | 0o644) << 16  # the Unix mode, in the bits where zip files store it
_CREATED_ON_UNIX = 3  # the code of Unix in the entries of a zip file
_FALLBACK_PREFIX = f"{FOLDER_PREFIX}task-"
_PARTIAL_ZIP_SUFFIX = ".tmp"
_COMPILED_SUFFIX = ".pyc"
NOT_FOR_JOBS = ("cli", "installation", "new_files.py", "watch.py")  # parts of the library that no job imports
_UNCHECKED_HASH = (0b01).to_bytes(4, "little")  # PEP 552: Python does not compare the module with its source
# A job may continue after its worker was killed, and read its request some time later.
_MIN_UNUSED_FOLDER_AGE_SECONDS = 3600.0
_MIN_UNUSED_ZIP_AGE_SECONDS = 7 * 86400.0  # a driver imports from its zip as long as it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedJob:
    """The files of one job, as absolute paths on this worker. The request and the job's markers contain `nonce`."""

    script: str
    library: str
    request: str
    settings: str  # the path for a properties file; other private files of the task go into the same folder
    nonce: str

    @property
    def public_id(self) -> str:
        """A unique id that everybody may see. The nonce cannot be computed from it."""
        return hashlib.sha256(self.nonce.encode()).hexdigest()[:16]


@contextmanager
def ship_job(job: str, request_json: Callable[[str], str]) -> Iterator[ShippedJob]:
    """Prepare the job `deltalite/jobs/<job>.py`, its library, and a request file that is removed after the block.

    Args:
        job: The name of the job.
        request_json: Takes the nonce, and returns the text of the request.
    """
    nonce = token_hex(16)
    with cache_folder() as cache, ExitStack() as library_lock:
        is_shared = not cache.name.startswith(_FALLBACK_PREFIX)  # this task has locked a fallback folder already
        with lock(cache) if is_shared else nullcontext():
            remove_unused_files(cache, now=time.time())
            library = pack_library(cache)
            library_lock.enter_context(lock(library, fcntl.LOCK_SH))
        with temporary_private_folder(JOB_FOLDER_PREFIX, cache) as folder:
            # The name is unique, because a driver may receive the files of several jobs in one folder.
            request = folder / f"deltalite-request-{folder.name.removeprefix(JOB_FOLDER_PREFIX)}.json"
            request.touch(mode=0o600)
            request.write_text(request_json(nonce), encoding="utf-8")
            yield ShippedJob(
                script=str(installed_library() / "jobs" / f"{job}.py"),
                library=str(library),
                request=str(request),
                settings=str(folder / "settings.properties"),
                nonce=nonce,
            )


@contextmanager
def cache_folder() -> Iterator[Path]:
    """Open the cache folder of this user below the temporary folder. The folder holds code that tasks run.

    All tasks share the folder. The block gets a new folder instead, which is removed after the block, in these cases:

    - the name of the shared folder belongs to a file or a link;
    - another user owns the shared folder, or may write to it.
    """
    if (shared := open_private_folder()) is not None:
        yield shared
        return
    temporary = Path(tempfile.gettempdir())
    _remove_unused_folders(temporary, _FALLBACK_PREFIX, now=time.time())
    with temporary_private_folder(_FALLBACK_PREFIX, temporary) as folder:
        yield folder


def remove_unused_files(cache: Path, *, now: float) -> None:
    """Remove unlocked files: folders and partial zips of killed workers after an hour, zips after a week."""
    _remove_unused_folders(cache, JOB_FOLDER_PREFIX, now=now)
    for pattern, unused_seconds in (
        (f"*{_PARTIAL_ZIP_SUFFIX}", _MIN_UNUSED_FOLDER_AGE_SECONDS),
        ("*.zip", _MIN_UNUSED_ZIP_AGE_SECONDS),
    ):
        for file in cache.glob(pattern):
            with suppress(OSError):  # another worker has removed it
                if now - file.lstat().st_mtime > unused_seconds and is_unlocked(file):
                    file.unlink()


def _remove_unused_folders(parent: Path, prefix: str, *, now: float) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another worker has removed it
            status = folder.lstat()
            is_old = stat.S_ISDIR(status.st_mode) and now - status.st_mtime > _MIN_UNUSED_FOLDER_AGE_SECONDS
            if is_old and status.st_uid == os.getuid() and is_unlocked(folder):
                shutil.rmtree(folder)


def installed_library() -> Path:
    """Return the folder of the installed `deltalite` package, without importing the jobs."""
    spec = find_spec("deltalite")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "Could not ship the job: the package 'deltalite' is not installed beside airflow_provider_deltalite. "
            "Install airflow-provider-deltalite again."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def pack_library(folder: Path) -> Path:
    """Return the library's zip file in `folder`, and pack it first if it does not exist.

    The function writes the zip under another name, and renames the complete file. It sets the modification time of an
    existing zip to now, so that the time shows the last use.
    """
    sources = library_sources(installed_library())
    zip_path = folder / f"deltalite-{digest_of_files(sources, salt=MAGIC_NUMBER)[:20]}.zip"
    if zip_path.is_file():
        os.utime(zip_path)
        return zip_path
    descriptor, partial_path = tempfile.mkstemp(dir=folder, suffix=_PARTIAL_ZIP_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library_zip(sources | compiled_modules(sources, zip_path)))
        Path(partial_path).replace(zip_path)
    except BaseException:
        Path(partial_path).unlink()
        raise
    return zip_path


def library_sources(package: Path) -> dict[str, bytes]:
    """Return the sources of `package` that jobs need, sorted by their names in the zip file."""
    names_and_paths = sorted(
        (path.relative_to(package.parent).as_posix(), path)
        for pattern in ("*.py", "py.typed")
        for path in package.rglob(pattern)
        if path.relative_to(package).parts[0] not in NOT_FOR_JOBS
    )
    return {name: path.read_bytes() for name, path in names_and_paths}


def compiled_modules(sources: dict[str, bytes], zip_path: Path) -> dict[str, bytes]:
    """Return the compiled modules by their names in the zip file. Tracebacks name files in `zip_path`."""
    return {
        f"{name.removesuffix('.py')}{_COMPILED_SUFFIX}": MAGIC_NUMBER
        + _UNCHECKED_HASH
        + source_hash(content)
        + marshal.dumps(compile(content, str(zip_path / name), "exec", dont_inherit=True))
        for name, content in sources.items()
        if name.endswith(".py")
    }


def sources_in_zip(library: Path) -> dict[str, bytes]:
    """Return the files of a library's zip file without the compiled modules."""
    with zipfile.ZipFile(library) as archive:
        names = [name for name in archive.namelist() if not name.endswith(_COMPILED_SUFFIX)]
        return {name: archive.read(name) for name in names}


def library_zip(files: dict[str, bytes], *, is_compressed: bool = True) -> bytes:
    """Return the files as a zip file. Equal files give equal bytes with the same zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            zip_info = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
            zip_info.external_attr, zip_info.create_system = _REGULAR_FILE, _CREATED_ON_UNIX
            zip_info.compress_type = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
            archive.writestr(zip_info, content)
    return buffer.getvalue()


def digest_of_files(files: Mapping[str, bytes], *, salt: bytes = b"") -> str:
    """Return the SHA-256 of `salt` and of the files, in hexadecimal digits."""
    digest = hashlib.sha256(salt)
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
