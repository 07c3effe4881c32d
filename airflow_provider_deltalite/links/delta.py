"""The links of a task in Airflow's UI: the Spark application that ran it, and the commit that it made.

The worker stores a link with the task as soon as it knows the address, so a running or killed task has its links too.
When the task ends, Airflow asks for the links again. The driver's UI ends with the job. The link to the application
then opens Spark's history server or YARN's ResourceManager. The link is empty if the task knows neither address.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from airflow_provider_deltalite.page.registration import task_page
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from deltalite.results import JobStarted

_log = logging.getLogger(__name__)
# The schemes of the addresses that Airflow's UI opens.
_WEB_SCHEMES = frozenset({"http", "https"})


class _StoredLink(BaseOperatorLink):
    """A link whose address the operator learns while it runs."""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002  Airflow's signature
        """Return the link for the end of the task; without one an empty text, because Airflow would show None."""
        links: TaskLinks | None = getattr(operator, "links", None)
        return (links.links_at_end.get(self.xcom_key) if links else None) or ""


class SparkApplicationLink(_StoredLink):
    """The link to the driver's UI while the job runs; later to the application in the history server or in YARN."""

    name = "Spark application"


class DeltaCommitLink(_StoredLink):
    """The link to the commit: the page that ``[deltalite] commit_link`` names, or the task's tab 'Delta'."""

    name = "Delta commit"


class TaskLinks:
    """The links of one task attempt. An error here is logged and does not fail the task."""

    def __init__(self, ti: RuntimeTaskInstanceProtocol) -> None:
        self.links_at_end: dict[str, str | None] = {}
        self._ti = ti

    def store_application_link(
        self, job: JobStarted, *, history: str | None, resource_manager: str | None, hosts: Collection[str]
    ) -> None:
        """Store the link to a Spark application: the driver's UI now, `application_page` at the end of the task.

        If the driver's UI is not on one of `hosts`, the link leads to `application_page` at once.
        """
        lasting_page = application_page(job.application_id, history=history, resource_manager=resource_manager)
        may_link_to_driver = job.ui_url is not None and is_web_page_on(job.ui_url, hosts)
        self._store(
            SparkApplicationLink().xcom_key,
            current_page=job.ui_url if may_link_to_driver else lasting_page,
            lasting_page=lasting_page,
        )

    def store_commit_link(self, table: str, version: int | None) -> None:
        """Store the link to the commit of a version.

        Without `[deltalite] commit_link`, the link leads to the task's tab 'Delta'. The method stores no link if
        `version` is None, if the setting gives no web address, or if the tab has no known address.
        """
        template = conf.get("deltalite", "commit_link", fallback=None)
        if version is None:
            return
        if not template:
            tab = self._task_page()
            if tab is not None:
                self._store(DeltaCommitLink().xcom_key, current_page=tab, lasting_page=tab)
            return
        try:
            page = commit_page(table, version, template=template)
        except (LookupError, ValueError, AttributeError) as error:  # `str.format` raises these
            _log.warning(
                "Omitting the link to the commit: the template [deltalite] commit_link, %r, is invalid: %r",
                template,
                error,
            )
            return
        if urlsplit(page).scheme.lower() not in _WEB_SCHEMES:
            _log.warning(
                "Omitting the link to the commit: [deltalite] commit_link gives %s, and Airflow's UI opens only http "
                "and https addresses.",
                page,
            )
            return
        self._store(DeltaCommitLink().xcom_key, current_page=page, lasting_page=page)

    def _task_page(self) -> str | None:
        """Return the address of the task's tab; None if unknown."""
        map_index = -1 if self._ti.map_index is None else self._ti.map_index
        try:
            return task_page(self._ti.dag_id, self._ti.run_id, self._ti.task_id, map_index)
        except Exception:  # noqa: BLE001  the task has committed, and a missing link must not fail it
            _log.warning("Omitting the link to the tab of the task.", exc_info=True)
            return None

    def _store(self, key: str, *, current_page: str | None, lasting_page: str | None) -> None:
        self.links_at_end[key] = lasting_page
        if current_page is None:
            return
        try:
            self._ti.xcom_push(key=key, value=current_page)
        except Exception:  # noqa: BLE001  a missing link must not fail the task
            _log.warning("Could not store the link %s.", current_page, exc_info=True)


def application_page(application_id: str, *, history: str | None, resource_manager: str | None) -> str | None:
    """Return the page of a finished application on the history server, else on YARN; None without such a server."""
    if history:
        return f"{_public_address(history)}/history/{application_id}/"
    if resource_manager and application_id.startswith("application_"):
        return f"{_public_address(resource_manager)}/cluster/app/{application_id}"
    return None


def is_web_page_on(address: str, hosts: Collection[str]) -> bool:
    """Whether an untrusted address is a plain http(s) address on one of these hosts."""
    if not address.isascii() or not address.isprintable() or set(address) & set(" \\<>\"'"):
        return False
    try:
        url = urlsplit(address)
        host, _ = url.hostname, url.port  # `port` raises a ValueError if it is invalid
    except ValueError:
        return False
    return url.scheme in _WEB_SCHEMES and "@" not in url.netloc and host in {allowed.lower() for allowed in hosts}


def host_of(address: str) -> str | None:
    """Return the host of an address with or without a scheme, or None."""
    try:
        return urlsplit(address.removeprefix("k8s://") if "://" in address else f"//{address}").hostname
    except ValueError:
        return None


def commit_page(table: str, version: int, *, template: str) -> str:
    """Return the address of the web page of a commit file, from the deployment's template.

    Raises:
        LookupError, ValueError, AttributeError: the template is invalid.
    """
    location = parse_location(table)
    root = f"file://{quote(location.path)}" if location.is_local else location.path
    uri = f"{root}/_delta_log/{version:020}.json"
    url = urlsplit(uri)
    fields = {"bucket": url.netloc, "key": url.path.lstrip("/"), "uri": uri, "table": location.path}
    return template.format(version=version, **{name: quote(value, safe="/") for name, value in fields.items()})


def _public_address(address: str) -> str:
    """Return the address with a scheme and without user and password, because links are stored and shown."""
    url = address if "://" in address else f"http://{address}"
    scheme, _, after_scheme = url.rstrip("/").partition("://")
    authority, slash, path = after_scheme.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
