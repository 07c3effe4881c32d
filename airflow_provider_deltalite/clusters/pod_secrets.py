"""The Kubernetes Secrets that bring a job to its driver's pod: script, library, request and secret settings.

Spark would copy these files to `spark.kubernetes.file.upload.path`, where they stay, and all settings to a ConfigMap.
Accounts that may read ConfigMaps often may not read Secrets.

- All jobs of this release in the namespace share the Secret of the library. Its name contains the hash of its files, so
  an existing Secret can be used again.
- The Secret of the job belongs to the driver's pod, so Kubernetes deletes it with the pod.

A killed worker may leave the Secret of a job without an owner. `unowned_secrets` cleans it up in a later task.
"""

from __future__ import annotations

import base64
import gzip
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.clusters.kubernetes_api import (
    TIMEOUT_SECONDS,
    KubernetesError,
    explain_errors,
    has_status,
)
from airflow_provider_deltalite.clusters.unowned_secrets import (
    JOB_LABELS,
    LABELS,
    POD_ANNOTATION,
    clean_up_unowned_secrets,
    delete_secret,
)
from airflow_provider_deltalite.java_options import java_arguments_text, java_options, split_java_options
from airflow_provider_deltalite.shipping import digest_of_files, library_zip, sources_in_zip
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow_provider_deltalite.clusters.driver_pod import DriverPod
    from airflow_provider_deltalite.shipping import ShippedJob

_LIBRARY_FOLDER, _JOB_FOLDER = "/etc/deltalite/library", "/etc/deltalite/job"
_SCRIPT, _REQUEST, _JAVA_ARGUMENTS = "zipped_job.py", "request.json", "java.args"
SCRIPT_IN_POD, REQUEST_IN_POD = f"local://{_LIBRARY_FOLDER}/{_SCRIPT}", f"{_JOB_FOLDER}/{_REQUEST}"
_OPTIONS_SETTING = "spark.driver.defaultJavaOptions"  # users usually set spark.driver.extraJavaOptions instead
# The driver would write these settings to the executors' pods as plain text. The executors read a file instead.
_EXECUTOR_OPTIONS = frozenset({"spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions"})
# Prefixes of settings that set a variable of the environment. For each: the pods that have the variable, and the prefix
# of the setting that reads the variable from a Secret.
_REFERENCE_PREFIXES = {
    "spark.kubernetes.driverEnv.": ("driver", "spark.kubernetes.driver.secretKeyRef."),
    "spark.executorEnv.": ("executor", "spark.kubernetes.executor.secretKeyRef."),
}
_SUBMISSION_PREFIX = "spark.kubernetes."  # the prefix of settings that only spark-submit uses, such as its token


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecrets:
    """The Secrets of one job, in the namespace of its driver's pod. The pod need not exist yet."""

    pod: DriverPod
    job: ShippedJob

    def create(
        self, secret_settings: Mapping[str, str], public_settings: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Create the job's Secret, and the Secret of the library if it is missing. Clean up Secrets of killed workers.

        :param secret_settings: The secret settings of the job.
        :param public_settings: The other settings of the job.
        :returns: The settings that mount the Secrets, and the secret settings that only `spark-submit` can use.
        :raises InvalidRequestError: Kubernetes rejects a Secret, for example because the worker may not create it. Or
            the existing Secret of the library has other content. Or a setting has invalid options of Java.
        :raises KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        library = self._library_files()
        files, settings, submission_settings = _distribute(secret_settings, public_settings, self._job_secret_name)
        files[_REQUEST] = Path(self.job.request).read_bytes()
        settings[f"spark.kubernetes.driver.secrets.{_library_secret_name(library)}"] = _LIBRARY_FOLDER
        settings[f"spark.kubernetes.driver.secrets.{self._job_secret_name}"] = _JOB_FOLDER
        clean_up_unowned_secrets(self._api, self._namespace)
        self._create_library(library)
        self._create(self._job_secret_name, files, JOB_LABELS, annotations={POD_ANNOTATION: self.pod.name})
        return settings, submission_settings

    def make_pod_owner(self) -> bool:
        """Make the pod the owner of the job's Secret, and return whether the pod exists.

        :raises InvalidRequestError: The worker may not read the pod or change the Secret, or the Secret does not exist.
        :raises KubernetesError: Kubernetes does not answer, or cannot serve the request now.
        """
        return self.pod.become_owner(self._job_secret_name)

    def delete(self) -> None:
        """Delete the job's Secret. The caller must ensure that no pod needs it. A failure is logged."""
        delete_secret(self._api, self._namespace, self._job_secret_name)

    @property
    def _api(self) -> Any:
        """The `CoreV1Api`."""
        return self.pod.api

    @property
    def _namespace(self) -> str:
        return self.pod.namespace

    @property
    def _job_secret_name(self) -> str:
        return f"deltalite-job-{self.job.public_id}"

    def _library_files(self) -> dict[str, bytes]:
        script = Path(self.job.script).with_name(_SCRIPT)
        library = Path(self.job.library)
        return {f"{library.name}.gz": _packed_library(library), _SCRIPT: script.read_bytes()}

    def _create_library(self, files: Mapping[str, bytes]) -> None:
        """Create the Secret of the library. If it exists, check its content, because the driver will run it."""
        name = _library_secret_name(files)
        try:
            self._create(name, files, LABELS, immutable=True)
        except KubernetesError as error:
            if not has_status(error, 409):
                raise
            with explain_errors(f"read the Secret {name}"):
                secret = self._api.read_namespaced_secret(name, self._namespace, _request_timeout=TIMEOUT_SECONDS)
            if secret.data != _encoded(files):
                raise InvalidRequestError(
                    f"The Secret {name} in the namespace {self._namespace} does not contain "
                    "the library of this worker, so no job was submitted.",
                    remedy="Find out who changed the Secret. Then delete it: the next task creates it again.",
                ) from error

    def _create(
        self,
        name: str,
        files: Mapping[str, bytes],
        labels: Mapping[str, str],
        *,
        annotations: Mapping[str, str] | None = None,
        immutable: bool = False,
    ) -> None:
        body = {
            "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations or {})},
            "data": _encoded(files),
            "immutable": immutable,
        }
        with explain_errors(f"create the Secret {name} in the namespace {self._namespace}"):
            self._api.create_namespaced_secret(self._namespace, body, _request_timeout=TIMEOUT_SECONDS)


@cache
def _packed_library(library: Path) -> bytes:
    """Return a zip file with the sources of a library, compressed with gzip.

    The cache is valid, because the file name of a library contains the hash of its modules. A Secret holds at most
    1 MiB, which is too little for the compiled modules. The function compresses all modules together, because the
    result is a third smaller than if it compressed each module.
    """
    return gzip.compress(library_zip(sources_in_zip(library), is_compressed=False), compresslevel=6, mtime=0)


def _distribute(
    secret_settings: Mapping[str, str], public_settings: Mapping[str, str], secret_name: str
) -> tuple[dict[str, bytes], dict[str, str], dict[str, str]]:
    """Decide for each secret setting where driver and executors read it.

    Returns:
        The files of the Secret, the settings that refer to them, and the settings that only `spark-submit` can use.
    """
    files: dict[str, bytes] = {}
    references: dict[str, str] = {}
    submission_settings: dict[str, str] = {}
    driver_settings: dict[str, str] = {}
    for name, value in secret_settings.items():
        prefix = next((prefix for prefix in _REFERENCE_PREFIXES if name.startswith(prefix)), None)
        if prefix is not None:
            variable, (role, reference_prefix) = name.removeprefix(prefix), _REFERENCE_PREFIXES[prefix]
            key = f"{role}.{variable}"
            if f"{reference_prefix}{variable}" not in public_settings:  # the user's own Secret takes precedence
                files[key] = value.encode()
                references[f"{reference_prefix}{variable}"] = f"{secret_name}:{key}"
        elif name in _EXECUTOR_OPTIONS:
            public_options, secret_options = split_java_options(name, value)
            files[f"{name}.args"] = java_arguments_text(secret_options).encode()
            references[name] = f"{shlex.join(public_options)} @{_JOB_FOLDER}/{name}.args".strip()
        elif name.startswith(_SUBMISSION_PREFIX):
            submission_settings[name] = value
        else:
            driver_settings[name] = value
    if not _EXECUTOR_OPTIONS.isdisjoint(secret_settings):
        references[f"spark.kubernetes.executor.secrets.{secret_name}"] = _JOB_FOLDER
    if driver_settings:
        files[_JAVA_ARGUMENTS] = java_arguments_text(java_options(driver_settings)).encode()
        # If this setting of the user is secret, the file already contains its options.
        options = "" if _OPTIONS_SETTING in secret_settings else public_settings.get(_OPTIONS_SETTING, "")
        references[_OPTIONS_SETTING] = f"{options} @{_JOB_FOLDER}/{_JAVA_ARGUMENTS}".strip()
    return files, references, submission_settings


def _library_secret_name(files: Mapping[str, bytes]) -> str:
    """Return the name of the Secret with these files.

    The name contains a hash, because two workers with the same release may compress the library differently.
    """
    return f"deltalite-library-{digest_of_files(files)[:20]}"


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}
