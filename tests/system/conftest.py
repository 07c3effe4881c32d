"""The Airflow that these tests share. The first test starts it. A failed test prints the last lines of its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.airflow_processes import WholeAirflow
from tests.support.folder_servers import servers_of
from tests.support.postgres import postgres

AIRFLOW = pytest.StashKey[WholeAirflow]()


@pytest.fixture(scope="session")
def whole_airflow(tmp_path_factory, pytestconfig):
    """A running Airflow. Its tables are below `lake`, which is `{{ var.value.lake }}` in its DAGs."""
    home = tmp_path_factory.mktemp("airflow")
    variables = {"AIRFLOW_VAR_LAKE": str(home / "lake"), "AIRFLOW_VAR_LANDING": str(home / "landing")}
    servers = servers_of(Path(__file__).parent, pytestconfig)
    database = servers.enter_context(postgres())
    airflow = servers.enter_context(WholeAirflow(home, database=database, variables=variables))
    pytestconfig.stash[AIRFLOW] = airflow
    return airflow


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    airflow = item.config.stash.get(AIRFLOW, None)
    if report.failed and airflow is not None and "whole_airflow" in item.fixturenames:
        report.sections.append(("Airflow's processes", airflow.last_log_lines()))
    return report
