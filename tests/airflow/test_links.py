"""The links of a task. The task stores each link while it runs. At its end, Airflow shows only the lasting links."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import DAG

from airflow_provider_deltalite.get_provider_info import get_provider_info
from airflow_provider_deltalite.links.delta import (
    DeltaCommitLink,
    SparkApplicationLink,
    application_page,
    commit_page,
    is_web_page_on,
)
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.support.airflow_versions import scheduler_copy
from tests.support.stand_in_jobs import PRINT_RESULT

SPARK_LINK_KEY, COMMIT_LINK_KEY = SparkApplicationLink().xcom_key, DeltaCommitLink().xcom_key
PRINT_STARTED = """
from deltalite.markers import started_marker
from deltalite.results import JobStarted
print(started_marker(JobStarted(application_id='app-1', ui_url='http://localhost:4040')), flush=True)
"""


@pytest.fixture
def pushed_values(context):
    """The values that the task pushed as XComs, by key."""
    values_by_key = {}
    context["ti"].xcom_push = lambda key, value: values_by_key.setdefault(key, []).append(value)
    return values_by_key


def write_task(table, **parameters):
    return DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"}, **parameters)


def links_of(operator):
    """The address of each link of a task, by its XCom key. The address of a link without a page is an empty text."""
    return {link.xcom_key: link.get_link(operator, ti_key=None) for link in operator.operator_extra_links}


def test_the_link_to_the_spark_ui_exists_only_while_the_job_runs(
    table, spark_submit, context, pushed_values, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__DELTALITE__COMMIT_LINK", "https://files/{key}")
    spark_submit.set_script(PRINT_STARTED + PRINT_RESULT)
    task = write_task(table)
    task.execute(context)
    commit_page_address = f"https://files{table}/_delta_log/{4:020}.json"
    assert pushed_values == {SPARK_LINK_KEY: ["http://localhost:4040"], COMMIT_LINK_KEY: [commit_page_address]}
    assert links_of(task) == {SPARK_LINK_KEY: "", COMMIT_LINK_KEY: commit_page_address}


@pytest.mark.parametrize("template", [None, "{uri}", "s3://{bucket}/{key}", "javascript:alert(1)"])
def test_a_commit_without_a_web_page_has_no_button(table, spark_submit, context, pushed_values, monkeypatch, template):
    if template is not None:
        monkeypatch.setenv("AIRFLOW__DELTALITE__COMMIT_LINK", template)
    spark_submit.set_script(PRINT_RESULT)
    task = write_task(table)
    assert task.execute(context)["version"] == 4
    assert pushed_values == {}
    assert links_of(task) == {SPARK_LINK_KEY: "", COMMIT_LINK_KEY: ""}


@pytest.mark.parametrize(("map_index", "mapped"), [(-1, ""), (3, "/mapped/3")])
def test_a_commit_links_to_the_tab_of_its_task(
    table, spark_submit, context, pushed_values, monkeypatch, map_index, mapped
):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/prod")
    monkeypatch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", "True")
    context["ti"].map_index = map_index
    spark_submit.set_script(PRINT_RESULT)
    task = write_task(table)
    task.execute(context)
    run = "scheduled__2026-01-01T00%3A00%3A00%2B00%3A00"
    tab = f"https://airflow.example/prod/dags/sales/runs/{run}/tasks/load{mapped}/plugin/delta-task"
    assert pushed_values == {COMMIT_LINK_KEY: [tab]}
    assert links_of(task)[COMMIT_LINK_KEY] == tab


@pytest.mark.parametrize(("enabled", "base_url"), [("maybe", "https://airflow.example"), ("True", "http://[x")])
def test_an_invalid_setting_fails_no_task_that_has_committed(
    table, spark_submit, context, pushed_values, monkeypatch, enabled, base_url
):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    monkeypatch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", enabled)
    spark_submit.set_script(PRINT_RESULT)
    assert write_task(table).execute(context)["version"] == 4
    assert pushed_values == {}


def test_a_failed_task_links_to_its_application_in_a_history_server(
    table, spark_submit, context, pushed_values, monkeypatch
):
    connection = {"conn_type": "spark", "host": "local[*]", "extra": {"spark-history-server": "http://history:18080/"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    spark_submit.set_script(PRINT_STARTED + "sys.exit(51)")
    task = write_task(table)
    with pytest.raises(Exception, match="SchemaMismatchError"):
        task.execute(context)
    assert pushed_values == {SPARK_LINK_KEY: ["http://localhost:4040"]}
    assert links_of(task) == {SPARK_LINK_KEY: "http://history:18080/history/app-1/", COMMIT_LINK_KEY: ""}


@pytest.mark.parametrize("template", ["https://logs/{no_such_field}", "https://logs/{"])
def test_an_invalid_commit_link_fails_no_committed_task(
    table, spark_submit, context, pushed_values, monkeypatch, template
):
    monkeypatch.setenv("AIRFLOW__DELTALITE__COMMIT_LINK", template)
    spark_submit.set_script(PRINT_RESULT)
    assert write_task(table).execute(context)["version"] == 4
    assert pushed_values == {}


def test_a_link_that_cannot_be_stored_fails_no_committed_task(table, spark_submit, context):
    def refuse(key, value):
        raise RuntimeError("no API server")

    context["ti"].xcom_push = refuse
    spark_submit.set_script(PRINT_STARTED + PRINT_RESULT)
    assert write_task(table).execute(context)["version"] == 4


@pytest.mark.parametrize(
    ("history_server", "resource_manager", "application", "page"),
    [
        ("h:18080", "http://rm:8088", "application_1_2", "http://h:18080/history/application_1_2/"),
        (None, "http://rm:8088", "application_1_2", "http://rm:8088/cluster/app/application_1_2"),
        (None, "http://rm:8088", "local-1", None),
        (None, None, "application_1_2", None),
        ("https://user:planted@h:18080/", None, "app-1", "https://h:18080/history/app-1/"),
    ],
)
def test_the_permanent_link_leads_to_the_history_server_or_to_yarn(history_server, resource_manager, application, page):
    assert application_page(application, history=history_server, resource_manager=resource_manager) == page


@pytest.mark.parametrize(
    "address",
    ["http://evil:4040", "javascript:alert(1)", "ftp://w/x", "http://w@evil/", "http://evil/w", "http://w.evil/",
     "http://evil\\@w/", "//w/x", "http://w:x/", "http://[", "http://w/\u202ex", "http://w/ x", "http://user:pw@w/"],
)  # fmt: skip
def test_an_address_that_is_not_a_page_on_a_host_of_spark_has_no_button(address):
    assert not is_web_page_on(address, {"w", "rm"})


@pytest.mark.parametrize("address", ["http://w:4040", "https://rm/proxy/application_1_2/", "http://W/"])
def test_an_address_on_a_host_of_spark_has_a_button(address):
    assert is_web_page_on(address, {"w", "rm"})


def test_a_job_that_names_a_foreign_address_has_no_button(table, spark_submit, context, pushed_values):
    spark_submit.set_script(PRINT_STARTED.replace("localhost", "evil.example") + PRINT_RESULT)
    write_task(table).execute(context)
    assert SPARK_LINK_KEY not in pushed_values


AWS_CONSOLE_TEMPLATE = "https://console.aws.amazon.com/s3/object/{bucket}?prefix={key}&v={version}"


@pytest.mark.parametrize(
    ("table", "template", "page"),
    [
        ("/lake/or ders", "https://files/{key}", f"https://files/lake/or%2520ders/_delta_log/{7:020}.json"),
        (
            "s3a://lake/a b",
            AWS_CONSOLE_TEMPLATE,
            f"https://console.aws.amazon.com/s3/object/lake?prefix=a%20b/_delta_log/{7:020}.json&v=7",
        ),
        (
            "s3://lake/t",
            "https://b/{uri}?of={table}",
            f"https://b/s3%3A//lake/t/_delta_log/{7:020}.json?of=s3%3A//lake/t",
        ),
    ],
)
def test_the_commit_links_to_the_configured_web_page(table, template, page):
    assert commit_page(table, 7, template=template) == page


def test_the_provider_lists_its_links_and_they_survive_serialization():
    class_paths = [
        f"{type(link).__module__}.{type(link).__qualname__}" for link in DeltaWriteOperator.operator_extra_links
    ]
    assert sorted(class_paths) == sorted(get_provider_info()["extra-links"])
    with DAG("d", schedule=None) as dag:
        write_task("/t")
    links = scheduler_copy(dag).get_task("load").operator_extra_link_dict
    assert sorted(links) == ["Delta commit", "Spark application"]
