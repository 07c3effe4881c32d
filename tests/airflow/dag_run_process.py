"""Runs the programs `*_dag_run.py` in a separate process: a real Airflow with a database, and a stand-in for Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def run_dag_program(program, folder, stand_in, airflow_db, **settings) -> str:
    """Run a program in an Airflow whose files are below `folder`, and return its complete output.

    The argument of the program is the path of `stored.json` in the folder, for its results.

    The DAG folder has a copy of the program only, because Airflow parses all files of this folder for each DAG run. The
    database is a copy of the empty one in the folder `airflow_db`. `settings` are further environment variables. The
    caller checks the files that the program writes, and not its exit code.
    """
    (folder / "dags").mkdir()
    program = shutil.copy(program, folder / "dags")
    shutil.copy(airflow_db / "empty.db", folder / "airflow.db")
    environment = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
        "PYTHONPATH": str(CHECKOUT),
        "PATH": f"{stand_in.program.parent}{os.pathsep}{os.environ['PATH']}",
        "TEST_LAKE": str(folder / "lake"),
        **settings,
    }
    process = subprocess.run(
        [sys.executable, program, str(folder / "stored.json")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout + process.stderr
