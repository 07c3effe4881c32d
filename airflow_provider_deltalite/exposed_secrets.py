"""Rejects secrets that other users of a cluster could read, before a JVM starts.

`check_secrets_in_cluster` reads only the parameters of the task. It does not read `properties_file` and
`spark-defaults.conf`. `check_repositories` also gets the settings of these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from deltalite.errors import InvalidRequestError
from deltalite.redaction import shows_secret

if TYPE_CHECKING:
    from airflow_provider_deltalite.preflight import Launch

_EXECUTOR_VARIABLE_PREFIX = "spark.executorEnv."
_APPLICATION_MASTER_VARIABLE_PREFIX = "spark.yarn.appMasterEnv."
_EXECUTOR_OPTIONS = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")
_DRIVER_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
# In client mode. In cluster mode, the application master is the driver.
_APPLICATION_MASTER_OPTIONS = ("spark.yarn.am.extraJavaOptions",)
_REPOSITORIES = "spark.jars.repositories"
# If it is true, which is the default, a NodeManager copies the start script of each container into its log folder.
_DEBUG_SETTING = "yarn.nodemanager.log-container-debug-info.enabled"
# Variables such as AWS_WEB_IDENTITY_TOKEN_FILE, which name a file with the secret.
_FILE_VARIABLE_PATTERN = re.compile(r"(?i)(_file|_path|_dir|_location)$")


def check_secrets_in_cluster(launch: Launch, conf: Mapping[str, Any], env_vars: Mapping[str, Any] | None) -> None:
    """Raise if other users could read a secret variable, or a secret option of Java, in the cluster.

    - In client mode on Kubernetes, the driver writes its settings for executors into their pods.
    - YARN writes the variables and the command of a container into its start script, and copies the script into the
      container's logs. The check accepts secrets if the `yarn-site.xml` of this worker says that the cluster makes no
      copy.

    :param launch: How the job is submitted.
    :param conf: The user's settings of Spark.
    :param env_vars: The user's environment variables.
    """
    if launch.on_kubernetes and not launch.in_cluster:
        _check_client_mode_on_kubernetes(conf)
    if launch.master == "yarn" and _copies_start_scripts(launch.environ):
        options = _DRIVER_OPTIONS if launch.in_cluster else _APPLICATION_MASTER_OPTIONS
        _check_yarn(conf, env_vars or {}, application_master_options=options)


def _check_client_mode_on_kubernetes(conf: Mapping[str, Any]) -> None:
    consequence = "In client mode on Kubernetes, the driver would write it to the executors' pods as plain text."
    if variables := _secret_variables(conf, _EXECUTOR_VARIABLE_PREFIX):
        name = variables[0]
        reference = f"spark.kubernetes.executor.secretKeyRef.{name.removeprefix(_EXECUTOR_VARIABLE_PREFIX)}"
        remedy = f'Create a Secret of Kubernetes, and name it and its key in `conf`: {{"{reference}": "secret:key"}}.'
        raise _exposed_secret(f"{name} in `conf`", consequence, remedy)
    if options := _secret_options(conf, _EXECUTOR_OPTIONS):
        remedy = "Use cluster mode, in which the executors read the options from a Secret."
        raise _exposed_secret(f"{options[0]} in `conf`", consequence, remedy)


def _check_yarn(
    conf: Mapping[str, Any], env_vars: Mapping[str, Any], *, application_master_options: Sequence[str]
) -> None:
    # Airflow's hook gives `env_vars` to the application master, also in client mode.
    places = [
        *(f"the variable {name} in `env_vars`" for name in _secret_variables(env_vars, "")),
        *(f"{name} in `conf`" for name in _secret_variables(conf, _EXECUTOR_VARIABLE_PREFIX)),
        *(f"{name} in `conf`" for name in _secret_variables(conf, _APPLICATION_MASTER_VARIABLE_PREFIX)),
        *(f"{name} in `conf`" for name in _secret_options(conf, (*_EXECUTOR_OPTIONS, *application_master_options))),
    ]
    if places:
        raise _exposed_secret(
            places[0],
            "YARN would copy it as plain text into the logs of the containers.",
            "Use a setting of Spark instead, such as spark.hadoop.fs.s3a.secret.key, or a credential provider of "
            f"Hadoop. Or set {_DEBUG_SETTING} to false on the NodeManagers and in the yarn-site.xml of this worker "
            "(HADOOP_CONF_DIR).",
        )


def check_repositories(secrets: Mapping[str, str], public_settings: Mapping[str, Any], packages: str | None) -> None:
    """Raise if `spark-submit` needs a secret address of a repository, and would write it to the driver's ConfigMap.

    :param secrets: The secret settings of a job whose driver runs in a pod.
    :param public_settings: The other settings of the job.
    :param packages: The packages that the user names in the operator.
    """
    if _REPOSITORIES in secrets and (packages or public_settings.get("spark.jars.packages")):
        raise InvalidRequestError(
            f"{_REPOSITORIES} contains a password. spark-submit needs it to find the packages, and would write it to "
            "the driver's ConfigMap as plain text.",
            remedy="Put the jars into the image, or name the repository in the file of spark.jars.ivySettings.",
        )


def _exposed_secret(place: str, consequence: str, remedy: str) -> InvalidRequestError:
    """Return the error for a secret in this place."""
    return InvalidRequestError(
        f"By its name or its value, {place} is a secret. {consequence}",
        remedy=f"{remedy} If the value is no secret, set it in `properties_file`.",
    )


def _secret_variables(settings: Mapping[str, Any], prefix: str) -> list[str]:
    """Return the names of the settings with this prefix that set a variable to a secret."""
    return [
        name
        for name, value in settings.items()
        if name.startswith(prefix)
        and shows_secret(name, str(value))
        and not _names_file(name.removeprefix(prefix), str(value))
    ]


def _secret_options(conf: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the names of the settings that contain a secret option of Java."""
    return [name for name in names if name in conf and shows_secret(name, str(conf[name]))]


def _names_file(variable: str, value: str) -> bool:
    """Whether the value of a variable is the name of a file with the secret."""
    if _FILE_VARIABLE_PATTERN.search(variable):
        return True
    return variable.upper().endswith("_CREDENTIALS") and os.path.isabs(value)


def _copies_start_scripts(environ: Mapping[str, str]) -> bool:
    """Whether YARN copies the start scripts of containers into their logs, as far as this worker knows.

    Spark reads `yarn-site.xml` in the first folder that has it: HADOOP_CONF_DIR, then YARN_CONF_DIR. The function does
    not follow includes in the file. The answer is True if the function cannot read the file.
    """
    folders = [environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if environ.get(name)]
    try:
        files = [file for folder in folders if (file := Path(folder, "yarn-site.xml")).is_file()]
        properties = ET.parse(files[0]).getroot().iter("property") if files else ()  # noqa: S314  the worker's own file
    except (ET.ParseError, OSError, ValueError, LookupError):
        return True
    values = [_text(entry, "value") for entry in properties if _text(entry, "name") == _DEBUG_SETTING]
    return not values or any(value.lower() != "false" for value in values)


def _text(entry: ET.Element, name: str) -> str:
    """Return the text of the attribute or element `name` of a property."""
    return (entry.get(name) or entry.findtext(name) or "").strip()
