"""`deltalite doctor`: checks the installation of this machine, and a table's storage if you name a table.

The command checks:

- Python, Java, Spark and its Python files
- package versions against the tested versions
- the clients and connectors of object stores
- the Airflow connection
- the access to the table's storage

Run the command where tasks run: on a worker, and on the triggerer for deferrable sensors and watchers.

The exit code is 3 if a check found an error, and 0 if there are at most warnings. JSON has one object per check:
`check`, `status` (`ok`, `warning`, `error` or `skipped`), `message`, and `remedy`, which is empty if nothing is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points

from deltalite import watch
from deltalite.cli.command import Arguments, Command, storage_options
from deltalite.cli.exit_codes import FOUND_ERRORS
from deltalite.cli.output import Column, Output
from deltalite.installation.checks import CHECKS_GROUP, Check, CheckFunction, Scope, Status, check_storage
from deltalite.installation.doctor import check_installation
from deltalite.sizes import counted
from deltalite.storage.locations import parse_location
from deltalite.storage.opening import open_store

_COLUMNS = (Column("check"), Column("status"), Column("result", folds=True))
_STYLES = {Status.ERROR: "red", Status.WARNING: "yellow"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--conn-id",
        default="spark_default",
        metavar="NAME",
        help="the Airflow connection of Spark to check (%(default)s)",
    )
    parser.add_argument(
        "--storage-conn-id", metavar="NAME", help="the Airflow connection that opens the table's storage"
    )


def _run(args: Arguments, out: Output) -> int:
    checks = list(_checks(args))
    if out.as_json:
        out.records(
            {"check": check.name, "status": check.status.value, "message": check.message, "remedy": check.remedy}
            for check in checks
        )
    else:
        _show(out, checks)
    return FOUND_ERRORS if any(check.status is Status.ERROR for check in checks) else 0


def _checks(args: Arguments) -> Iterator[Check]:
    scheme = None if args.table is None else parse_location(args.table).scheme
    yield from check_installation(os.environ, scheme)
    scope = Scope(conn_id=args.conn_id, table=args.table, storage_conn_id=args.storage_conn_id)
    for entry in entry_points(group=CHECKS_GROUP):
        yield from _registered_checks(entry, scope)
    # With a storage connection, the checks of the Airflow provider read the storage, because only Airflow can open it.
    if args.table is not None and args.storage_conn_id is None:
        yield check_storage(args.table, lambda: _latest_version(args))


def _registered_checks(entry: EntryPoint, scope: Scope) -> list[Check]:
    """Run the checks that another distribution registers.

    Their output goes to standard error, because standard output may hold JSON.
    """
    try:
        with redirect_stdout(sys.stderr):
            function: CheckFunction = entry.load()
            return list(function(scope))
    except ModuleNotFoundError as error:
        message = f"These checks need a package that is not installed: {error}."
        return [Check(name=entry.name, status=Status.SKIPPED, message=message)]
    except Exception as error:  # noqa: BLE001  a failing distribution must not hide the other checks
        return [
            Check(
                name=entry.name,
                status=Status.ERROR,
                message=f"The checks of {entry.value} failed: {type(error).__name__}: {error}",
                remedy="Correct the installation of that package.",
            )
        ]


def _latest_version(args: Arguments) -> int:
    return watch.latest_version(open_store(args.table, storage_options=storage_options(args) or None))


def _show(out: Output, checks: list[Check]) -> None:
    out.table(_COLUMNS, ((check.name, check.status.value, check.message) for check in checks))
    for check in checks:
        if check.remedy:
            out.line(f"{check.status.value}: {check.name}: {check.remedy}", style=_STYLES.get(check.status, ""))
    errors, warnings = (sum(check.status is status for check in checks) for status in (Status.ERROR, Status.WARNING))
    out.line(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}")


COMMAND = Command(
    name="doctor",
    summary="check the installation: Java, Spark, versions, connections, storage",
    description=__doc__,
    takes_version=False,
    needs_table=False,
    add_arguments=_add_arguments,
    run=_run,
)
