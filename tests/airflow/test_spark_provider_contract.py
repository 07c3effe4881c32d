"""Contract tests: the private methods and attributes of Airflow's Spark provider on which this provider relies.

If a release of the Spark provider changes one of them, a test here fails before a task of a user does.
"""

from __future__ import annotations

import inspect
import json

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.hooks._driver import DriverHook
from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator

HOOK_METHODS = {
    "_build_spark_common_args": ["self"],
    "_build_spark_submit_command": ["self", "application"],
    "_delete_driver_pod": ["self"],
    "_get_spark_binary_path": ["self"],
    "_get_yarn_rm_base_url": ["self"],
    "_kill_yarn_application": ["self", "application_id"],
    "_poll_k8s_driver_via_api": ["self"],
    "_process_spark_submit_log": ["self", "itr"],
    "_run_post_submit_commands": ["self"],
    "_should_track_driver_via_k8s_api": ["self"],
    "_should_track_yarn_application_via_rm_api": ["self"],
    "_validate_track_driver_via_k8s_api_config": ["self"],
    "_validate_yarn_track_via_rm_api_config": ["self"],
    "on_kill": ["self"],
    "submit": ["self", "application", "kwargs"],
}
OVERRIDDEN_METHODS = {
    "_build_spark_common_args",
    "_build_spark_submit_command",
    "_delete_driver_pod",
    "_get_spark_binary_path",
    "_poll_k8s_driver_via_api",
    "_process_spark_submit_log",
    "on_kill",
    "submit",
}
HOOK_ATTRIBUTES = [
    "_application_args", "_conf", "_conn_id", "_connection", "_driver_class_path", "_env", "_env_vars", "_files",
    "_is_kubernetes", "_is_yarn", "_is_yarn_cluster_mode", "_jars", "_kubernetes_driver_pod", "_last_submit_log_lines",
    "_name", "_packages", "_properties_file", "_py_files", "_resolved_yarn_rm_auth", "_status_poll_interval",
    "_submit_sp", "_track_driver_via_k8s_api", "_yarn_application_id", "_yarn_rm_auth", "_yarn_track_via_rm_api",
]  # fmt: skip
OPERATOR_METHODS = {
    "_get_hook": ["self"],
    "execute": ["self", "context"],
    "execute_resumable": ["self", "context"],
    "get_job_status": ["self", "external_id", "context"],
    "is_job_active": ["self", "status"],
    "is_job_succeeded": ["self", "status"],
    "on_kill": ["self"],
    "poll_until_complete": ["self", "external_id", "context"],
    "submit_job": ["self", "context"],
}


@pytest.mark.parametrize("name", HOOK_METHODS)
def test_the_hook_has_the_method_with_its_parameters(name):
    assert list(inspect.signature(getattr(SparkSubmitHook, name)).parameters) == HOOK_METHODS[name]


def test_every_overridden_method_exists_in_the_base_class():
    defined_names = vars(DeltaSparkSubmitHook).keys() | vars(DriverHook).keys()
    assert defined_names & vars(SparkSubmitHook).keys() >= OVERRIDDEN_METHODS
    private_methods = {name for name in defined_names if name.startswith("_") and not name.startswith("__")}
    assert {name for name in private_methods if hasattr(SparkSubmitHook, name)} <= OVERRIDDEN_METHODS, (
        "add the new method to OVERRIDDEN_METHODS"
    )


def test_the_hook_has_the_attributes_that_this_provider_reads(spark_submit):
    hook = SparkSubmitHook(conf={"a": "b"})
    assert [name for name in HOOK_ATTRIBUTES if not hasattr(hook, name)] == []
    assert {"master", "deploy_mode", "spark_binary"} <= set(hook._connection)
    assert (hook._submit_sp, hook._yarn_application_id, hook._kubernetes_driver_pod) == (None, None, None)


def test_the_command_contains_the_common_arguments_and_is_logged(spark_submit, monkeypatch, capsys):
    hook = SparkSubmitHook(conf={"spark.secret.key": "x"}, application_args=["last"])
    monkeypatch.setattr(hook, "_build_spark_common_args", lambda: ["--replaced"])
    assert hook._build_spark_submit_command("app.py") == ["spark-submit", "--replaced", "app.py", "last"]
    assert "--replaced" in capsys.readouterr().out


def test_the_environment_of_the_process_is_taken_after_the_command_is_built(spark_submit, monkeypatch):
    hook = SparkSubmitHook()
    build = hook._build_spark_submit_command

    def build_and_change_environment(application):
        command = build(application)
        hook._env = {"SET_WHILE_BUILDING": "yes"}
        return command

    monkeypatch.setattr(hook, "_build_spark_submit_command", build_and_change_environment)
    hook.submit("app.py")
    assert spark_submit.env["SET_WHILE_BUILDING"] == "yes"


def test_the_output_is_read_once_line_by_line_and_the_process_is_kept(spark_submit, monkeypatch):
    spark_submit.set_script("print('one'); print('two'); sys.exit(7)")
    hook, read_lines = SparkSubmitHook(), []
    monkeypatch.setattr(hook, "_process_spark_submit_log", lambda lines: read_lines.append(list(lines)))
    with pytest.raises(AirflowException, match="Error code is: 7"):
        hook.submit("app.py")
    assert read_lines == [["one\n", "two\n"]]
    assert hook._submit_sp.returncode == 7
    hook._submit_sp.stdout.close()


@pytest.mark.parametrize("name", OPERATOR_METHODS)
def test_the_operator_has_the_method_with_its_parameters(name):
    assert list(inspect.signature(getattr(SparkSubmitOperator, name)).parameters) == OPERATOR_METHODS[name]


def test_the_operator_creates_a_hook_only_if_it_has_none(spark_submit, monkeypatch):
    operator = SparkSubmitOperator(task_id="operator", application="app.py", durable=False)
    hooks = []
    monkeypatch.setattr(operator, "_get_hook", lambda: hooks.append(SparkSubmitHook()) or hooks[-1])
    operator.execute({})
    operator.execute({})
    assert len(hooks) == 1
    operator._hook = None
    operator.execute({})
    assert len(hooks) == 2


def test_the_operator_keeps_each_parameter_of_the_hook_under_its_name():
    operator = SparkSubmitOperator(task_id="operator")
    parameters = [name for name in inspect.signature(SparkSubmitHook.__init__).parameters if name != "self"]
    assert [name for name in parameters if not hasattr(operator, name) and not hasattr(operator, f"_{name}")] == []
    assert operator._java_class is None


def test_the_operator_defines_the_keys_of_a_tracked_job():
    assert SparkSubmitOperator.external_id_key == "spark_job_id"
    assert SparkSubmitOperator._K8S_DRIVER_STATUS_KEY == "k8s_driver_status"


def test_yarn_is_tracked_only_if_the_extra_has_the_address_of_its_resource_manager(spark_submit, monkeypatch):
    def hook_of_connection(**extra):
        connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", **extra}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
        return SparkSubmitHook(yarn_track_via_rm_api=True)

    with pytest.raises(ValueError, match="yarn_resourcemanager_webapp_address"):
        hook_of_connection()._validate_yarn_track_via_rm_api_config()
    hook = hook_of_connection(yarn_resourcemanager_webapp_address="rm:8088")
    hook._validate_yarn_track_via_rm_api_config()
    assert hook._get_yarn_rm_base_url() == "http://rm:8088"
    assert hook._should_track_yarn_application_via_rm_api()


def test_the_template_fields_of_this_provider_include_those_of_the_spark_provider():
    assert set(SparkSubmitOperator.template_fields) <= set(DeltaSubmitOperator.template_fields)
