"""One API server for all tasks that `dag.test()` runs in this process."""

from __future__ import annotations

from functools import cache

import pytest
from airflow.api_fastapi.execution_api import versions
from airflow.sdk.execution_time import supervisor
from cadwyn import HeadVersion, Version, VersionBundle

# Airflow requires that an older version has each route that a newer version removed.
_NEWEST_VERSIONS = 2


def share_api_server(patch: pytest.MonkeyPatch) -> None:
    """Let all tasks share one API server, because each new server takes seconds to start.

    The server has the newest versions of its API only, because the tasks use the newest one. Airflow takes half a
    second to make the routes of each version.
    """
    newest_versions, base = versions.bundle.versions[:_NEWEST_VERSIONS], versions.bundle.versions[_NEWEST_VERSIONS]
    for version in newest_versions:
        for change in version.changes:
            change._bound_version_bundle = None
    bundle = VersionBundle(HeadVersion(), *newest_versions, Version(base.value))
    patch.setattr(versions, "bundle", bundle)
    patch.setattr(supervisor, "in_process_api_server", cache(supervisor.in_process_api_server))
