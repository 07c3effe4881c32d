"""The part of the hook that decides whether the state of a driver is tracked in its cluster.

A tracked driver has a state that YARN or Kubernetes shows, so `spark-submit` may end early, and a retry can join the
driver. Without tracking, `spark-submit` waits for the end of the job.
"""

from __future__ import annotations

from airflow_provider_deltalite.hooks._driver import DriverHook
from deltalite.errors import InvalidRequestError

_WAIT_SETTING = "spark.yarn.submit.waitAppCompletion"
_WAIT_SETTING_OF_PODS = "spark.kubernetes.submission.waitAppCompletion"


class TrackingHook(DriverHook):
    """Track the driver of one job in its cluster, or let `spark-submit` wait."""

    @property
    def is_tracked(self) -> bool:
        """Whether the hook follows the state of the driver through the API of the cluster."""
        return bool(self._should_track_driver_via_k8s_api() or self._should_track_yarn_application_via_rm_api())

    @property
    def has_auth_of_author(self) -> bool:
        """Whether the author of the DAG gave an object that authenticates the requests to the ResourceManager."""
        return self._yarn_rm_auth is not None

    @property
    def uses_kerberos(self) -> bool:
        """Whether Airflow's hook authenticates the requests to the ResourceManager by Kerberos."""
        return self._is_yarn and not self.has_auth_of_author and self._resolved_yarn_rm_auth is not None

    @property
    def is_untracked_in_yarn(self) -> bool:
        """Whether the job runs in a YARN cluster without tracking, so that a retry cannot join it."""
        return bool(self._is_yarn_cluster_mode and not self._yarn_track_via_rm_api)

    @property
    def resource_manager(self) -> str | None:
        """The web address of YARN's ResourceManager. None for another master, or if the connection does not name it."""
        try:
            address: str = self._get_yarn_rm_base_url() if self._is_yarn else ""
        except ValueError:
            return None
        return address or None

    def _set_tracking(self, *, in_yarn: bool | None, in_kubernetes: bool | None) -> None:
        """Decide whether the driver is tracked, and check that tracking is possible. None means: if possible."""
        self._yarn_track_via_rm_api = self._can_track() if in_yarn is None else in_yarn
        self._track_driver_via_k8s_api = self.launch.runs_in_pod if in_kubernetes is None else in_kubernetes
        self._check_tracking()
        if self.launch.in_cluster and not self.is_tracked:
            self._let_spark_submit_wait()

    def _can_track(self) -> bool:
        try:
            self._validate_yarn_track_via_rm_api_config()
        except (ValueError, RuntimeError):  # not a YARN cluster, no address of it, or no client for Kerberos
            return False
        return True

    def _check_tracking(self) -> None:
        """Run the base class's checks of tracking now. The base class runs them only when it submits or tracks."""
        if self._track_driver_via_k8s_api:
            self._validate_track_driver_via_k8s_api_config()
        self._validate_yarn_track_via_rm_api_config()
        wait_setting = str(self._conf.get(_WAIT_SETTING, "false")).strip().lower()
        if self._should_track_yarn_application_via_rm_api() and wait_setting != "false":
            raise ValueError(f"{_WAIT_SETTING} is '{wait_setting}'. A tracked job needs it to be 'false'.")

    def _let_spark_submit_wait(self) -> None:
        """Let `spark-submit` wait for the end of a job that is not tracked, whatever spark-defaults.conf says."""
        name = _WAIT_SETTING_OF_PODS if self.launch.runs_in_pod else _WAIT_SETTING
        if str(self._conf.get(name, "true")).strip().lower() == "false":
            raise InvalidRequestError(
                f"The job is not tracked, and `conf` sets {name} to 'false', so the task could not wait for the job.",
                remedy="Leave the setting out, or let the operator track the job.",
            )
        self._conf = {**self._conf, name: "true"}
