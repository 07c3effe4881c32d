"""The checks before a JVM starts: each error has a remedy."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_deltalite.hooks._spark_environment import default_python, default_spark_home
from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
from airflow_provider_deltalite.preflight import Launch, check_launch, find_missing_connectors, find_mixed_pyspark
from airflow_provider_deltalite.shipping import ShippedJob
from deltalite.errors import InvalidRequestError
from deltalite.installation.spark import find_spark_submit
from tests.support.clusters.yarn import write_sites

JOB = ShippedJob(
    script="/s/write.py", library="/s/deltalite.zip", request="/tmp/request.json", settings="/tmp/s", nonce="a1"
)


def hook(**parameters) -> DeltaSparkSubmitHook:
    return DeltaSparkSubmitHook(job=JOB, **{"conn_id": "spark_default", **parameters})


def launch(**changes) -> Launch:
    defaults = {
        "conn_id": "c",
        "master": "local[*]",
        "deploy_mode": None,
        "binary": "spark-submit",
        "environ": dict(os.environ),
    }
    return Launch(**{**defaults, **changes})


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2,3]", "spark://a:7077", "spark://a:1,b:2", "yarn", "k8s://https://h:443"]
)
def test_every_valid_spark_master_is_accepted(spark_submit, master):
    check_launch(launch(master=master))


@pytest.mark.parametrize("master", ["", "master", "local://", "yarn://", "spark://", "mesos://m:5050"])
def test_an_unknown_spark_master_is_rejected_by_name(spark_submit, master):
    with pytest.raises(
        InvalidRequestError, match=f"Invalid Spark master '{master}' in the connection 'c'.*spark://host:7077"
    ):
        check_launch(launch(master=master))


def test_a_missing_connection_is_rejected_and_does_not_become_yarn(spark_submit):
    with pytest.raises(AirflowNotFoundException, match=r"no Airflow connection 'nowhere'.*AIRFLOW_CONN_NOWHERE"):
        hook(conn_id="nowhere")


def test_the_connection_is_read_once_so_a_later_failure_cannot_change_it(spark_submit, monkeypatch):
    requested_ids, get_connection = [], BaseHook.get_connection

    def fail_at_the_second_lookup(conn_id):
        requested_ids.append(conn_id)
        if len(requested_ids) > 1:
            raise AirflowNotFoundException("the secrets backend does not answer")
        return get_connection(conn_id)

    monkeypatch.setattr(BaseHook, "get_connection", fail_at_the_second_lookup)
    submit_hook = hook(conn_id="spark_default")
    assert submit_hook.launch.is_local
    assert (submit_hook.history_server, submit_hook.resource_manager) == (None, None)


@pytest.fixture
def cluster_connections(spark_submit, monkeypatch):
    """The connections `k8s` and `yarn` in client mode, and `yarn_cluster`."""
    for conn_id, host, deploy_mode in (
        ("k8s", "k8s://https://h:443", "client"),
        ("yarn", "yarn", "client"),
        ("yarn_cluster", "yarn", "cluster"),
    ):
        connection = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": deploy_mode}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


DEBUG_SETTING = "yarn.nodemanager.log-container-debug-info.enabled"
LATER_PROPERTY = f"<property><name>{DEBUG_SETTING}</name><value>true</value></property></configuration>"
SECRET_EXECUTOR_VARIABLE = {"spark.executorEnv.DB_PASSWORD": "planted-variable"}


def test_a_secret_variable_of_executors_is_rejected_in_client_mode_on_kubernetes(cluster_connections):
    with pytest.raises(InvalidRequestError) as caught:
        hook(conn_id="k8s", conf=SECRET_EXECUTOR_VARIABLE)
    assert "spark.kubernetes.executor.secretKeyRef.DB_PASSWORD" in str(caught.value)
    assert "planted" not in str(caught.value)
    hook(conn_id="k8s", conf={"spark.executorEnv.REGION": "eu"})
    hook(conn_id="k8s", conf={"spark.executorEnv.AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/token"})


@pytest.mark.parametrize(
    "parameters",
    [
        {"conn_id": "yarn", "conf": SECRET_EXECUTOR_VARIABLE},
        {"conn_id": "yarn_cluster", "conf": SECRET_EXECUTOR_VARIABLE},
        {"conn_id": "yarn_cluster", "conf": {"spark.yarn.appMasterEnv.DB_PASSWORD": "planted-variable"}},
        {"conn_id": "yarn", "conf": {"spark.executor.extraJavaOptions": "-DDB_PASSWORD=planted-option"}},
        {"conn_id": "yarn", "conf": {"spark.yarn.am.extraJavaOptions": "-DDB_PASSWORD=planted-option"}},
        {"conn_id": "yarn_cluster", "conf": {"spark.driver.extraJavaOptions": "-DDB_PASSWORD=planted-option"}},
        {"conn_id": "yarn", "env_vars": {"DB_PASSWORD": "planted-variable"}},
        {"conn_id": "yarn_cluster", "env_vars": {"DB_PASSWORD": "planted-variable"}},
    ],
)
@pytest.mark.parametrize("copies_start_scripts", [None, "true", " False "])
def test_a_secret_variable_is_rejected_if_yarn_copies_it_into_logs(
    cluster_connections, monkeypatch, tmp_path, parameters, copies_start_scripts
):
    if copies_start_scripts is not None:
        write_sites(tmp_path, {"yarn-site": {"yarn.acl.enable": "true", DEBUG_SETTING: copies_start_scripts}})
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    if copies_start_scripts == " False ":
        hook(**parameters)
        return
    with pytest.raises(InvalidRequestError, match=r"`(conf|env_vars)` is a secret") as caught:
        hook(**parameters)
    assert "planted" not in str(caught.value) and "log-container-debug-info" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("<configuration><", True),
        ('<?xml version="1.0" encoding="unknown"?><configuration/>', True),
        (f'<configuration><property name="{DEBUG_SETTING}" value="false"/></configuration>', False),
        (
            f"<configuration><property><name>{DEBUG_SETTING}</name><value>false</value></property>{LATER_PROPERTY}",
            True,
        ),
    ],
)
def test_a_secret_is_accepted_only_if_the_configuration_clearly_says_that_yarn_makes_no_copy(
    cluster_connections, monkeypatch, tmp_path, text, copies
):
    (tmp_path / "yarn-site.xml").write_text(text)
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    if copies:
        with pytest.raises(InvalidRequestError):
            hook(conn_id="yarn", conf=SECRET_EXECUTOR_VARIABLE)
    else:
        hook(conn_id="yarn", conf=SECRET_EXECUTOR_VARIABLE)


def test_the_first_folder_on_the_class_path_says_whether_yarn_makes_copies(cluster_connections, monkeypatch, tmp_path):
    for variable, value in (("HADOOP_CONF_DIR", "true"), ("YARN_CONF_DIR", "false")):
        folder = tmp_path / variable
        folder.mkdir()
        write_sites(folder, {"yarn-site": {DEBUG_SETTING: value}})
        monkeypatch.setenv(variable, str(folder))
    with pytest.raises(InvalidRequestError):
        hook(conn_id="yarn", conf=SECRET_EXECUTOR_VARIABLE)


def test_variables_that_are_no_secret_are_accepted_on_yarn(cluster_connections):
    conf = {
        "spark.executorEnv.REGION": "eu",
        "spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION": "token.file",
        "spark.yarn.appMasterEnv.GOOGLE_APPLICATION_CREDENTIALS": "/etc/key",
    }
    hook(conn_id="yarn_cluster", conf=conf, env_vars={"LANG": "C"})


def test_a_secret_option_of_executors_is_rejected_in_client_mode_on_kubernetes(cluster_connections):
    with pytest.raises(InvalidRequestError, match="extraJavaOptions in `conf` is a secret") as caught:
        hook(conn_id="k8s", conf={"spark.executor.extraJavaOptions": "-Dx.password=planted-option"})
    assert "planted" not in str(caught.value)


def test_python_in_cluster_mode_on_a_standalone_cluster_is_rejected(spark_submit, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_STANDALONE", '{"conn_type": "spark", "host": "spark://m", "port": 7077}')
    assert hook(conn_id="standalone").launch.deploy_mode is None
    for parameters in ({"deploy_mode": "cluster"}, {"conf": {"spark.submit.deployMode": "cluster"}}):
        with pytest.raises(InvalidRequestError, match=r"standalone cluster.*deploy_mode='client'"):
            hook(conn_id="standalone", **parameters)


def test_a_local_master_has_no_cluster_mode(spark_submit):
    with pytest.raises(InvalidRequestError, match="has no cluster"):
        check_launch(launch(deploy_mode="cluster"))


def test_an_unknown_deploy_mode_is_rejected(spark_submit):
    with pytest.raises(InvalidRequestError, match="'clutser'"):
        check_launch(launch(deploy_mode="clutser", master="yarn"))


def test_an_extra_that_airflow_forbids_is_an_error_of_the_connection(spark_submit, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ODD", '{"conn_type": "spark", "host": "local", "extra": {"spark-binary": "rm"}}')
    with pytest.raises(InvalidRequestError, match=r"spark-binary.*connection 'odd'"):
        hook(conn_id="odd")


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_a_missing_kubernetes_client_is_an_error_with_a_remedy(spark_submit, monkeypatch, deploy_mode):
    extra = {"deploy-mode": deploy_mode, "namespace": "lake"}
    connection = {"conn_type": "spark", "host": "k8s://https://h:443", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps(connection))
    monkeypatch.delattr(hooks, "kube_client")  # A failed import leaves the module without this name.
    monkeypatch.setattr("airflow_provider_deltalite.hooks.spark_submit.has_client", lambda: False)
    with pytest.raises(InvalidRequestError, match=r"Install apache-airflow-providers-cncf-kubernetes"):
        hook(conn_id="k8s")


def test_spark_submit_comes_from_the_path_of_the_process(spark_submit):
    assert find_spark_submit("spark-submit", os.environ) == str(spark_submit.program)
    with pytest.raises(InvalidRequestError, match="'my-submit' is not on the PATH"):
        find_spark_submit("my-submit", os.environ)
    assert hook(env_vars={"PATH": os.environ["PATH"]}).launch.environ["PATH"] == os.environ["PATH"]


def test_a_spark_submit_beside_the_interpreter_need_not_be_on_the_path(tmp_path, monkeypatch):
    venv = tmp_path / "venv"
    venv.mkdir()
    monkeypatch.setattr(sys, "executable", str(venv / "python"))
    environment_without_spark = {"PATH": str(tmp_path / "empty")}
    with pytest.raises(InvalidRequestError, match=r"pip install 'airflow-provider-deltalite\[pyspark\]'"):
        find_spark_submit("spark-submit", environment_without_spark)
    (venv / "spark-submit").write_text("#!/bin/sh\n")
    (venv / "spark-submit").chmod(0o755)
    assert find_spark_submit("spark-submit", environment_without_spark) == str(venv / "spark-submit")
    with pytest.raises(InvalidRequestError):
        find_spark_submit("spark3-submit", environment_without_spark)


def test_missing_java_is_an_error_with_a_remedy(spark_submit):
    check_launch(launch())
    (spark_submit.program.parent / "java").unlink()
    with pytest.raises(InvalidRequestError, match=r"no Java on this worker.*openjdk-17-jre-headless"):
        check_launch(launch())
    check_launch(launch(master="yarn", deploy_mode="cluster"))


def test_a_java_home_without_java_is_named_in_the_error(spark_submit):
    with pytest.raises(InvalidRequestError, match="JAVA_HOME is '/nonexistent'"):
        check_launch(launch(environ={**os.environ, "JAVA_HOME": "/nonexistent"}))


def test_java_may_be_named_by_java_home_or_in_spark_env(spark_submit, tmp_path):
    (spark_submit.program.parent / "java").unlink()
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    check_launch(launch(environ={**os.environ, "JAVA_HOME": str(home)}))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").write_text("export JAVA_HOME=/somewhere\n")
    check_launch(launch(environ={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf")}))


def test_a_wrapper_script_of_the_user_may_find_java_itself(spark_submit):
    (spark_submit.program.parent / "java").unlink()
    wrapper = spark_submit.program.parent / "submit-in-docker"
    wrapper.write_text("#!/bin/sh\n")
    wrapper.chmod(0o755)
    check_launch(launch(binary="submit-in-docker"))


def test_the_interpreter_of_the_worker_is_the_default_for_processes_on_the_worker():
    assert default_python(launch(environ={}), {}) == {"PYSPARK_PYTHON": sys.executable}
    assert default_python(launch(environ={}, master="yarn"), {}) == {"PYSPARK_DRIVER_PYTHON": sys.executable}
    assert default_python(launch(environ={}, master="yarn", deploy_mode="cluster"), {}) == {}


def test_a_spark_submit_without_a_python_gets_the_folder_of_spark(spark_submit):
    cluster_launch = launch(environ=dict(os.environ), master="yarn", deploy_mode="cluster")
    (home,) = default_spark_home(cluster_launch).values()
    assert (Path(home) / "jars").is_dir()
    assert default_spark_home(launch(environ={"SPARK_HOME": "/s"}, master="yarn", deploy_mode="cluster")) == {}
    assert default_spark_home(launch(environ=dict(os.environ))) == {}


@pytest.mark.parametrize(
    ("environ", "conf"),
    [
        ({"PYSPARK_PYTHON": "/p"}, {}),
        ({"PYSPARK_DRIVER_PYTHON": "/p"}, {}),
        ({}, {"spark.pyspark.python": "/p"}),
        ({}, {"spark.pyspark.driver.python": "/p"}),
    ],
)
def test_an_interpreter_that_the_user_names_takes_precedence(environ, conf):
    assert default_python(launch(environ=environ), conf) == {}


@pytest.fixture
def spark_home(tmp_path, monkeypatch):
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "hadoop-client-api-3.4.2.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.mark.parametrize(
    ("schemes", "settings", "missing_connectors"),
    [
        (["s3"], [], ["hadoop-aws"]),
        (["s3a", "gs", "abfss", "file"], [], ["hadoop-aws", "hadoop-azure", "hadoop-gcp or gcs-connector"]),
        (["file", "hdfs", "odd"], [], []),
        (["s3"], ["spark.jars.packages"], []),
        (["s3"], ["packages"], []),
        (["s3"], ["spark.driver.extraClassPath"], []),
        (["s3"], ["spark.hadoop.fs.s3a.endpoint"], ["hadoop-aws"]),
    ],
)
def test_a_connector_that_no_setting_provides_is_reported(
    spark_submit, spark_home, schemes, settings, missing_connectors
):
    assert find_missing_connectors(launch(), schemes, settings) == missing_connectors


def test_a_connector_that_a_setting_may_provide_is_not_reported(spark_submit, spark_home):
    assert find_missing_connectors(launch(master="yarn", deploy_mode="cluster"), ["s3"], []) == []
    assert find_missing_connectors(launch(environ={**os.environ, "SPARK_DIST_CLASSPATH": "/h/*"}), ["s3"], []) == []
    (spark_home / "conf").mkdir()
    (spark_home / "conf" / "spark-defaults.conf").write_text("spark.jars.packages org.apache.hadoop:hadoop-aws:3.4.2")
    assert find_missing_connectors(launch(), ["s3"], []) == []
    (spark_home / "conf" / "spark-defaults.conf").unlink()
    (spark_home / "jars" / "hadoop-aws-3.4.2.jar").touch()
    assert find_missing_connectors(launch(), ["s3"], []) == []


def test_a_missing_connector_is_only_a_warning(spark_submit, spark_home, capsys):
    hook(conf={"spark.x": "1"}).warn_of_missing_connectors(["s3://lake/orders", "/lake/orders"])
    assert capsys.readouterr().out.count("lacks the jar hadoop-aws") == 1
    hook(packages="org.apache.hadoop:hadoop-aws:3.4.2").warn_of_missing_connectors(["s3://lake/orders"])
    assert "hadoop-aws" not in capsys.readouterr().out


@pytest.fixture
def pip_pyspark(tmp_path, monkeypatch):
    """A folder `pyspark/` as pip installs it, which `sys.path` names before the real one."""
    folder = tmp_path / "site" / "pyspark"
    (folder / "jars").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(folder.parent)
    return folder


def test_a_mixed_pyspark_is_a_warning_with_the_command_that_repairs_it(spark_submit, pip_pyspark, capsys):
    (pip_pyspark / "version.py").write_text("__version__: str = '4.2.0'\n")
    hook().warn_of_mixed_pyspark()
    log = capsys.readouterr().out
    assert "jars of Spark 4.3.0, but the Python files of 4.2.0" in log
    assert "pip install --force-reinstall --no-deps 'pyspark==4.3.0'" in log
    (pip_pyspark / "version.py").write_text("__version__: str = '4.3.0'\n")
    hook().warn_of_mixed_pyspark()
    assert capsys.readouterr().out == ""


def test_an_unused_mixed_pyspark_causes_no_warning(spark_submit, pip_pyspark, spark_home):
    (pip_pyspark / "version.py").write_text("__version__: str = '4.2.0'\n")
    assert find_mixed_pyspark(launch()) is None  # SPARK_HOME names another Spark.
    assert find_mixed_pyspark(launch(environ={"PATH": os.environ["PATH"]})) is not None
    assert (
        find_mixed_pyspark(launch(master="yarn", deploy_mode="cluster", environ={"PATH": os.environ["PATH"]})) is None
    )
