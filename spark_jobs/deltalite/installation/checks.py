"""The result of one check of an installation: `Check`, with its status, a message and the remedy.

`deltalite doctor` runs the checks of this package. Other distributions add checks with the entry point group
`CHECKS_GROUP`. Each entry point is a function that takes a `Scope` and returns checks. The command line finds the
checks of the provider this way, so that it does not import Airflow or Spark itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from deltalite.errors import DeltaLiteError

CHECKS_GROUP = "deltalite.checks"
STORAGE_CHECK = "storage"


class Status(StrEnum):
    """The outcome of a check. `ERROR` means that the checked part does not work; with `WARNING` it may work."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check. `name` is a stable interface. `remedy` is empty if nothing is wrong."""

    name: str
    status: Status
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The checked objects: the Spark connection, and optionally a table with the connection that opens its storage."""

    conn_id: str
    table: str | None = None
    storage_conn_id: str | None = None


CheckFunction = Callable[[Scope], Iterable[Check]]
"""The function of an entry point in `CHECKS_GROUP`."""


def failed_check(name: str, error: DeltaLiteError) -> Check:
    """Return the result of a check that ended with an error."""
    return Check(name=name, status=Status.ERROR, message=error.problem, remedy=error.remedy)


def check_storage(table: str, latest_version: Callable[[], int]) -> Check:
    """Check that this machine can read a table's log.

    Args:
        table: The table's address, for the message.
        latest_version: A function that reads the newest version from the log; -1 means that there is no table.
    """
    try:
        version = latest_version()
    except DeltaLiteError as error:
        return failed_check(STORAGE_CHECK, error)
    version_text = "there is no table yet" if version < 0 else f"the newest version is {version}"
    return Check(name=STORAGE_CHECK, status=Status.OK, message=f"{table} is accessible; {version_text}")
