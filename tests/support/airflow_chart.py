"""The official chart of Airflow with the values of `deployments/airflow`.

`scripts/helm/build.sh` builds Helm and downloads the chart. Helm checks the values with the schema of the chart.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.required import skip_or_fail

CHECKOUT = Path(__file__).resolve().parents[2]
VALUES = CHECKOUT / "deployments" / "airflow" / "values.yaml"
_HELM, _CHART = CHECKOUT / ".helm" / "helm", CHECKOUT / ".helm" / "airflow-1.22.0.tgz"


def objects_of_the_chart(namespace: str) -> list[dict[str, Any]]:
    """The objects that the chart makes from the values, for a release with the name `airflow` in a namespace.

    Skips the test if Helm or the chart is missing, or fails it if `DELTALITE_REQUIRE_ALL=1` is set.
    """
    if not (_HELM.exists() and _CHART.exists()):
        skip_or_fail("Helm and the chart of Airflow are missing: scripts/helm/build.sh")
    command = [str(_HELM), "template", "airflow", str(_CHART), "--namespace", namespace, "--values", str(VALUES)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return [document for document in yaml.safe_load_all(process.stdout) if document]
