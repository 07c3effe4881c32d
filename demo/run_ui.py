"""Airflow's UI with the tables of the demonstration: `make demo-ui`, until Ctrl-C.

The program starts a whole Airflow in the home folder of the demonstration, with its database, DAG runs and tables.
Every visitor is an admin, so Airflow listens on the loopback interface only. The page *Delta tables* shows the tables
of the lake and their rows. Its button starts the example DAG `table_maintenance`. All other DAGs are paused.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from pathlib import Path
from threading import Event

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from demo.run_demo import UI_PAGE, UI_PORT  # noqa: E402
from tests.support.airflow_processes import AirflowTestError, WholeAirflow  # noqa: E402  importable in a checkout only

MAINTENANCE_DAG = "table_maintenance"


def ui_variables(home: Path) -> dict[str, str]:
    """Return the environment variables of the page and of the DAGs."""
    lake = home / "lake"
    return {
        "AIRFLOW_VAR_LAKE": str(lake),
        "AIRFLOW_VAR_LANDING": str(home / "landing"),
        "AIRFLOW__DELTALITE__COMMIT_LINK": "",  # the button of a task leads to the page
        "AIRFLOW__DELTALITE__UI_MAINTENANCE_DAG": MAINTENANCE_DAG,
        "AIRFLOW__DELTALITE__UI_PREVIEW": "True",
        "AIRFLOW__DELTALITE__UI_TABLES": ", ".join(str(log.parent) for log in sorted(lake.rglob("_delta_log"))),
    }


def add_example(airflow: WholeAirflow, dag_id: str) -> None:
    """Add an example DAG to Airflow, and unpause it."""
    airflow.add_dag(dag_id, CHECKOUT / "example_dags" / f"{dag_id}.py")


def serve(home: Path, port: int) -> None:
    """Start Airflow, print the address of the page, and wait for Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise Airflow would outlive this program
    print(f"Airflow starts in {home}. This takes up to a minute.", flush=True)
    # Two processes use the database. If one of them has locked it, the other waits.
    database = f"sqlite:///{home / 'airflow.db'}?timeout=60"
    with WholeAirflow(home, database=database, variables=ui_variables(home), port=port) as airflow:
        add_example(airflow, MAINTENANCE_DAG)
        print(f"The tables: http://127.0.0.1:{port}{UI_PAGE}\nCtrl-C stops Airflow.", flush=True)
        Event().wait()


def is_port_free(port: int) -> bool:
    """Whether no program listens on a port of the loopback interface."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main() -> int:
    """Run the program, and return the exit code."""
    parser = argparse.ArgumentParser(description="Show the tables of the demonstration in Airflow's UI.")
    parser.add_argument("--home", type=Path, default=CHECKOUT / ".airflow", help="the folder of the demonstration")
    parser.add_argument("--port", type=int, default=UI_PORT, help="the port of Airflow's UI")
    arguments = parser.parse_args()
    home = arguments.home.resolve()
    if not (home / "lake").is_dir():
        print(f"{home} has no tables. Run 'make demo' first.", file=sys.stderr)
        return 1
    if not is_port_free(arguments.port):
        print(f"Another program uses port {arguments.port}. Give another one: ARGS='--port 8081'.", file=sys.stderr)
        return 1
    try:
        serve(home, arguments.port)
    except AirflowTestError as error:
        print(f"Airflow did not start. {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nAirflow has stopped.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
