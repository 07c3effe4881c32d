"""Runs the programs `*_dag_run.py` in a separate process: a real Airflow with a database, and a stand-in for Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def run_dag_program(program, argument, folder, stand_in, airflow_db, **settings) -> str:
    """Run a program in an Airflow whose files are below `folder`, and return its complete output.

    The DAG folder is that of the program. The database is a copy of the empty one in the folder `airflow_db`.
    `settings` are further environment variables. The caller checks the files that the program writes, and not its exit
    code.
    """
    shutil.copy(airflow_db / "empty.db", folder / "airflow.db")
    environment = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(program).parent),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
        "PYTHONPATH": str(CHECKOUT),
        "PATH": f"{stand_in.program.parent}{os.pathsep}{os.environ['PATH']}",
        "TEST_LAKE": str(folder / "lake"),
        **settings,
    }
    process = subprocess.run(
        [sys.executable, str(program), str(argument)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout + process.stderr
