"""The buttons of a task: the Spark application that did its work, and the commit that came of it.

A link is a text that the worker stores with the task. It is stored as soon as it is known, so that a task that runs, or
whose worker is killed, has it too; Airflow asks again when the task ends, and is told what is still true then. The UI
of a driver dies with its job: afterwards the link leads to Spark's history server or YARN's ResourceManager where one
is known, and else there is none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from deltalite.results import JobStarted

_log = logging.getLogger(__name__)


class _StoredLink(BaseOperatorLink):
    """A link that the operator has found while it ran."""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  Airflow's signature
        """The link at the end of the task; empty where there is none: Airflow would show None as a text."""
        links: TaskLinks | None = getattr(operator, "_links", None)
        return (links.at_end.get(self.xcom_key) if links else None) or ""


class SparkApplicationLink(_StoredLink):
    """The driver's UI while the job runs; then the history server's or YARN's page of the application."""

    name = "Spark application"


class DeltaCommitLink(_StoredLink):
    """The file of the commit in the table's log."""

    name = "Delta commit"


class TaskLinks:
    """The links of one try of a task. Nothing that goes wrong here may fail the task."""

    def __init__(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self.at_end: dict[str, str | None] = {}
        self._ti = ti

    def application(self, job: JobStarted, *, history: str | None, resource_manager: str | None) -> None:
        """Remember where a Spark application is shown: its UI while it runs, and the page that lasts for later."""
        lasting = application_page(job.application_id, history=history, resource_manager=resource_manager)
        self._store(SparkApplicationLink().xcom_key, now=job.ui_url or lasting, at_end=lasting)

    def commit(self, table: str, version: int | None) -> None:
        """Remember the commit of a table; an operation may have made none."""
        if version is not None:
            template = conf.get("deltalite", "commit_link", fallback=None)
            try:
                page = commit_page(table, version, template=template)
            except (LookupError, ValueError, AttributeError) as error:  # as `str.format` refuses a template
                _log.warning("[deltalite] commit_link is %r, which cannot be filled in: %r", template, error)
                page = commit_page(table, version, template=None)
            self._store(DeltaCommitLink().xcom_key, now=page, at_end=page)

    def _store(self, key: str, *, now: str | None, at_end: str | None) -> None:
        self.at_end[key] = at_end
        if now is None:
            return
        try:
            self._ti.xcom_push(key=key, value=now)
        except Exception:  # noqa: BLE001  a button is not worth a task
            _log.warning("The link %s could not be stored.", now, exc_info=True)


def application_page(application_id: str, *, history: str | None, resource_manager: str | None) -> str | None:
    """Where an application can be looked at after its end, None where nobody keeps it."""
    if history:
        return f"{_http(history)}/history/{application_id}/"
    if resource_manager and application_id.startswith("application_"):
        return f"{_http(resource_manager)}/cluster/app/{application_id}"
    return None


def commit_page(table: str, version: int, *, template: str | None) -> str:
    """The address of a commit's file, or the web page that the deployment has for such files."""
    location = parse_location(table)
    root = f"file://{quote(location.path)}" if location.is_local else location.path
    uri = f"{root}/_delta_log/{version:020}.json"
    if not template:
        return uri
    parts = urlsplit(uri)
    fields = {"bucket": parts.netloc, "key": parts.path.lstrip("/"), "uri": uri, "table": location.path}
    return template.format(version=version, **{name: quote(value, safe="/") for name, value in fields.items()})


def _http(address: str) -> str:
    return (address if "://" in address else f"http://{address}").rstrip("/")
