"""The submission of a job whose driver is a pod of Kubernetes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.clusters.driver_pod import DriverPod, pod_name
from airflow_provider_deltalite.clusters.kubernetes_api import KubernetesError
from airflow_provider_deltalite.clusters.pod_secrets import PodSecrets
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow_provider_deltalite.shipping import ShippedJob

_POD_SETTING = "spark.kubernetes.driver.pod.name"

_log = logging.getLogger(__name__)


class PodSubmission:
    """The driver's pod and the Secrets of a job.

    :param api: A `CoreV1Api`.
    :param namespace: The namespace of the pod.
    :param job: The files of the job.
    :param application: The name of the Spark application.
    :param conf: The user's settings of Spark.
    :raises InvalidRequestError: The settings name the pod. Two tasks with one pod name would delete each other's pod.
    """

    pod: DriverPod | None = None  # None before `prepare` or `adopt`, and after a submission that created no pod

    def __init__(self, api: Any, *, namespace: str, job: ShippedJob, application: str, conf: Mapping[str, Any]) -> None:
        if _POD_SETTING in conf:
            raise InvalidRequestError(
                f"`conf` sets {_POD_SETTING}, but the operator gives each pod a unique name.",
                remedy="Leave the setting out. The pod's name starts with the parameter `name`.",
            )
        name = pod_name(application, job.public_id)
        self._submitted_pod = DriverPod(api=api, namespace=namespace, name=name)
        self._secrets = PodSecrets(pod=self._submitted_pod, job=job)
        self._has_unowned_secret = False
        self._conf = conf

    def adopt(self, namespace: str, name: str) -> None:
        """Follow the pod of an earlier task attempt."""
        self.pod = DriverPod(api=self._submitted_pod.api, namespace=namespace, name=name)

    def prepare(
        self, secret_settings: Mapping[str, str], file_settings: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Create the job's Secret, and the shared Secret of the library if it is missing, before `spark-submit` starts.

        Args:
            secret_settings: The secret settings of the job.
            file_settings: The other settings in the file that `spark-submit` reads.

        Returns:
            The settings that name the pod and mount the Secrets, and the secret settings that only `spark-submit` can
            use.

        Raises:
            InvalidRequestError, KubernetesError: See `PodSecrets.create`.
        """
        settings, submission_settings = self._secrets.create(secret_settings, {**file_settings, **self._conf})
        self._has_unowned_secret = True
        self.pod = self._submitted_pod
        return {_POD_SETTING: self.pod.name, **settings}, submission_settings

    def make_pod_owner(self, *, has_ended: bool) -> None:
        """Make the pod the owner of the job's Secret, unless it is the owner already.

        After a submission that created no pod, delete the Secret. The method logs a failure, because the job may run.

        :param has_ended: Whether `spark-submit` has ended, so that it creates no pod any more.
        """
        if not self._has_unowned_secret:
            return
        try:
            if self._secrets.make_pod_owner():
                self._has_unowned_secret = False
            elif has_ended:
                self._secrets.delete()
                self._has_unowned_secret = False
                self.pod = None
        except (InvalidRequestError, KubernetesError) as error:
            _log.warning("%s The job's Secret stays for now. A later task cleans it up.", error)

    def delete_pod(self) -> None:
        """Delete the pod, and the job's Secret if it has no owner. Do nothing if `pod` is None.

        The method logs a failure.
        """
        if self.pod is None:
            return
        self.pod.kill()
        if self.pod == self._submitted_pod and self._has_unowned_secret:
            self._secrets.delete()
            self._has_unowned_secret = False
