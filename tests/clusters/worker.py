"""A worker in a separate process that a test can kill. It runs one attempt of a task.

Usage: worker.py FILE. The file contains a JSON object with the name of the `operator`, its `parameters`, and the path
of its `state_file`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_provider_deltalite.operators import delta
from tests.support.clusters.tasks import context_of

if __name__ == "__main__":
    task = json.loads(Path(sys.argv[1]).read_text())
    operator = getattr(delta, task["operator"])(**task["parameters"])
    operator.execute(context_of(operator.task_id, Path(task["state_file"])))
