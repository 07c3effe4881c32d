"""A PostgreSQL server for one test of a whole Airflow, whose processes write to the database at the same time.

SQLite allows one writer. A transaction that began with a read fails immediately if the database is locked, because
SQLite ignores its timeout in this case. Airflow does not survive this error: a scheduler, for example, died of it while
it rolled back a backfill.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_ports
from tests.support.required import skip_or_fail

USER = "postgres"
"""The name of the server's superuser. On Debian, it is also the system account that runs the server."""
_START_TIMEOUT_SECONDS = 60
# A test's data need not survive a power cut, so the server may skip every flush to disk.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "listen_addresses": "127.0.0.1",
}


@contextmanager
def postgres() -> Iterator[str]:
    """Run a server with an empty database; yields its SQLAlchemy address. Skips the test if PostgreSQL is missing."""
    programs = _program_folder()
    with tempfile.TemporaryDirectory(prefix="deltalite-postgres-") as folder_name:
        folder = Path(folder_name)
        # PostgreSQL refuses to run as root.
        account = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if account:
            shutil.chown(folder, USER, USER)
        process_options = {"cwd": folder, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **account}
        initdb = [
            programs / "initdb",
            "--pgdata=data",
            f"--username={USER}",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        ]
        subprocess.run(initdb, stdout=subprocess.DEVNULL, check=True, **process_options)
        (port,) = free_ports(1)
        settings = [f"--{key}={value}" for key, value in _SETTINGS.items()]
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", "data", "-k", folder, "-p", str(port), *settings],
                stdout=log,
                **process_options,
            )
        try:
            _wait_until_ready(programs, server, port, folder / "server.log")
            yield f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)  # an immediate shutdown, without waiting for clients
            server.wait(timeout=30)


def _program_folder() -> Path:
    """The folder with the server's programs: the folder of `initdb` in the search path, or else Debian's newest folder.

    Debian has a folder for each version of the server, and does not put it into the search path.
    """
    initdb = shutil.which("initdb")
    folders = (
        [Path(initdb).resolve().parent] if initdb else sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version)
    )
    folders = [folder for folder in folders if (folder / "initdb").exists()]
    if not folders:
        skip_or_fail("PostgreSQL's server is not installed ('apt-get install postgresql' on Debian).")
    return folders[-1]


def _version(folder: Path) -> int:
    return int(folder.parent.name)


def _wait_until_ready(programs: Path, server: subprocess.Popen, port: int, log: Path) -> None:
    """Wait until the server accepts connections. Raises `RuntimeError` if it ends or takes too long."""
    pg_isready = [programs / "pg_isready", "--quiet", "--host=127.0.0.1", f"--port={port}"]
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while subprocess.run(pg_isready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')}")
        time.sleep(0.1)
