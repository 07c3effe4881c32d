"""An auth manager for a test: Airflow's simple one, with which `bob` may read only the DAG `page_stock`."""

from __future__ import annotations

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class PageAuthManager(SimpleAuthManager):
    """The simple auth manager, with fewer rights for `bob`."""

    def is_authorized_dag(self, *, method, user, access_entity=None, details=None):
        """Decide about a DAG."""
        if user.username == "bob" and details is not None and details.id not in (None, "page_stock"):
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)

    def is_authorized_asset(self, *, method, user, details=None):
        """Decide about an asset."""
        return user.username != "bob" and super().is_authorized_asset(method=method, user=user, details=details)
