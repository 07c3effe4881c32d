"""A PostgreSQL server for one test of a whole Airflow, whose processes write to their database at the same time.

SQLite has one writer. A process that finds the database locked within a transaction gets an error at once, whatever the
timeout is. Airflow does not survive this: a scheduler died when such an error rolled a backfill back.
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
from tests.support.required import not_here

USER = "postgres"  # the superuser, and on Debian the system account that runs the server
_STARTS_WITHIN_SECONDS = 60
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
    programs = _programs()
    with tempfile.TemporaryDirectory(prefix="deltalite-postgres-") as name:
        folder = Path(name)
        # PostgreSQL refuses to run as root.
        account = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if account:
            shutil.chown(folder, USER, USER)
        quiet = {"cwd": folder, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **account}
        initialise = [
            programs / "initdb",
            "--pgdata=data",
            f"--username={USER}",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        subprocess.run([*initialise, "--locale=C"], stdout=subprocess.DEVNULL, check=True, **quiet)
        (port,) = free_ports(1)
        settings = [f"--{key}={value}" for key, value in _SETTINGS.items()]
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", "data", "-k", folder, "-p", str(port), *settings], stdout=log, **quiet
            )
        try:
            _await(programs, server, port, folder / "server.log")
            yield f"postgresql+psycopg2://{USER}@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)  # an immediate shutdown, without waiting for clients
            server.wait(timeout=30)


def _programs() -> Path:
    """The folder of the server's programs, of the newest version. Debian does not put this folder on the path."""
    initdb = shutil.which("initdb")
    folders = (
        [Path(initdb).resolve().parent] if initdb else sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version)
    )
    folders = [folder for folder in folders if (folder / "initdb").exists()]
    if not folders:
        not_here("PostgreSQL's server is not installed ('apt-get install postgresql' on Debian).")
    return folders[-1]


def _version(folder: Path) -> int:
    return int(folder.parent.name)


def _await(programs: Path, server: subprocess.Popen, port: int, log: Path) -> None:
    ready = [programs / "pg_isready", "--quiet", "--host=127.0.0.1", f"--port={port}"]
    end = time.monotonic() + _STARTS_WITHIN_SECONDS
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')}")
        time.sleep(0.1)
