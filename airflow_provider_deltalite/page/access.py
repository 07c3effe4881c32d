"""The rights of the logged-in user. Airflow's auth manager decides about each of them.

Airflow does not authenticate the apps of plugins, so every route depends on Airflow's `get_user`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
from airflow.models.dag import DagModel

ROWS_VIEW = "Delta table rows"
"""The name of the custom view. A user who may read it may see rows of tables."""

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager


class AirflowRights:
    """The rights of a user of Airflow, for one request."""

    def __init__(self, user: Any) -> None:
        self._user = user
        self._auth_manager: BaseAuthManager[Any] = get_auth_manager()
        self._dag_ids: frozenset[str] | None = None
        self._reads_assets: bool | None = None

    @property
    def user_id(self) -> str:
        """The id of the user in the auth manager."""
        return str(self._user.get_id())

    def may_read_assets(self) -> bool:
        """Whether the user may read assets in general."""
        if self._reads_assets is None:
            self._reads_assets = bool(self._auth_manager.is_authorized_asset(method="GET", user=self._user))
        return self._reads_assets

    def may_read_asset(self, asset_id: int) -> bool:
        """Whether the user may read an asset."""
        details = AssetDetails(id=str(asset_id))
        return bool(self._auth_manager.is_authorized_asset(method="GET", user=self._user, details=details))

    def readable_dag_ids(self) -> frozenset[str]:
        """Return the DAGs that the user may read."""
        if self._dag_ids is None:
            self._dag_ids = frozenset(self._auth_manager.get_authorized_dag_ids(user=self._user, method="GET"))
        return self._dag_ids

    def may_read_rows(self) -> bool:
        """Whether the user may see rows of the tables that the user sees.

        Auth managers with roles have a separate permission for the custom view. An auth manager without such
        permissions allows custom views to all, so the user must also have the right to create events of assets.
        """
        may_view = self._auth_manager.is_authorized_custom_view(method="GET", resource_name=ROWS_VIEW, user=self._user)
        return bool(may_view and self._auth_manager.is_authorized_asset(method="POST", user=self._user))

    def may_read_dag(self, dag_id: str) -> bool:
        """Whether the user may read a DAG."""
        return self._may_read(dag_id, None)

    def may_read_runs(self, dag_id: str) -> bool:
        """Whether the user may read the runs of a DAG."""
        return self._may_read(dag_id, DagAccessEntity.RUN)

    def may_read_tasks(self, dag_id: str) -> bool:
        """Whether the user may read the task instances of a DAG."""
        return self._may_read(dag_id, DagAccessEntity.TASK_INSTANCE)

    def may_read_xcoms(self, dag_id: str) -> bool:
        """Whether the user may read the XComs of a DAG."""
        return self._may_read(dag_id, DagAccessEntity.XCOM)

    def may_start_runs(self, dag_id: str) -> bool:
        """Whether the user may start runs of a DAG."""
        return self._may(dag_id, DagAccessEntity.RUN, method="POST")

    def _may_read(self, dag_id: str, entity: DagAccessEntity | None) -> bool:
        return self._may(dag_id, entity, method="GET")

    def _may(self, dag_id: str, entity: DagAccessEntity | None, *, method: Literal["GET", "POST"]) -> bool:
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        return bool(
            self._auth_manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=self._user)
        )
