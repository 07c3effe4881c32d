"""The exit code and YARN's tracking address in the output of spark-submit. A line may quote untrusted text."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.clusters.reports import ClusterReports

PROXY_PATH = "proxy/application_1700000000000_0001/"


@pytest.mark.parametrize(
    ("line", "is_yarn", "exit_code"),
    [
        ("  diagnostics: User application exited with status 60", True, 60),
        ("AM Container exited with  exitCode: 137, stderr: 'exit code: 52'", True, None),
        ("User application exited with status 6000", True, None),
        ("User application exited with status " + "9" * 5000, True, None),
        ("User application exited with status \u0661", True, None),
        ("\t exit code: 84", False, 84),
        ("ended with exit_code=31", False, 31),
    ],
)
def test_the_exit_code_is_read_only_from_a_report_of_the_cluster(line, is_yarn, exit_code):
    reports = ClusterReports(is_yarn=is_yarn)
    reports.read(line)
    assert reports.exit_code == exit_code


def test_the_last_exit_code_and_the_first_proxy_address_are_used():
    reports = ClusterReports(is_yarn=True)
    for line in (
        "User application exited with status 60",
        "a row with tracking URL: http://elsewhere:1/" + PROXY_PATH,
        "\t tracking URL: http://rm:8088/" + PROXY_PATH,
        "\t tracking URL: http://later:8088/" + PROXY_PATH,
        "User application exited with status 61",
        "at org.apache.spark.deploy.yarn.Client",
    ):
        reports.read(line)
    assert (reports.exit_code, reports.proxy_address) == (61, "http://rm:8088")
