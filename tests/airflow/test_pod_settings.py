"""Secrets in the file of `spark-submit`, and secrets for executors, with a stand-in for Kubernetes' API."""

from __future__ import annotations

import re
import shlex

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_deltalite.properties_files import parse_properties
from tests.airflow.test_pods import commit_and_succeed, operator, settings_of

FILE = """
# the settings of the cluster
spark.hadoop.fs.s3a.secret.key  planted-file
spark.hadoop.fs.s3a.endpoint: s3.example.com
spark.ssl.keyPassword=planted-replaced
spark.driver.defaultJavaOptions -Dfile=1
spark.executorEnv.DB_PASSWORD planted-variable
hive.password planted-ignored
"""
COPY_FILE = """
import shutil
if "--properties-file" in sys.argv:
    shutil.copy(sys.argv[sys.argv.index("--properties-file") + 1], {copy!r})
"""


@pytest.fixture
def file_copy(tmp_path, spark_submit, kubernetes, table):
    """The path to which the stand-in for spark-submit copies its properties file."""
    copy = tmp_path / "copy.properties"
    spark_submit.set_script(COPY_FILE.format(copy=str(copy)))
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    return copy


@pytest.fixture(params=["spark-defaults.conf", "properties_file"])
def file_parameters(request, tmp_path, monkeypatch):
    """The parameters of an operator whose `spark-submit` reads `FILE`."""
    folder = tmp_path / "conf"
    folder.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    file = folder / request.param
    file.write_text(FILE)
    return {"properties_file": str(file)} if request.param == "properties_file" else {}


def test_secrets_of_the_file_are_only_in_the_secret_of_the_job(
    table, spark_submit, context, kubernetes, file_copy, file_parameters, capsys
):
    conf = {"spark.ssl.keyPassword": "planted-conf"}
    operator(table, conf=conf, **file_parameters).execute(context)
    job = kubernetes.files_of("deltalite-job-")
    assert set(job["java.args"].decode().splitlines()) == {
        '"-Dspark.hadoop.fs.s3a.secret.key=planted-file"',
        '"-Dspark.ssl.keyPassword=planted-conf"',
    }
    assert job["executor.DB_PASSWORD"] == b"planted-variable"
    assert parse_properties(file_copy.read_text()) == {
        "spark.hadoop.fs.s3a.endpoint": "s3.example.com",
        "spark.driver.defaultJavaOptions": "-Dfile=1",
    }
    assert settings_of(spark_submit.argv)["spark.driver.defaultJavaOptions"].startswith("-Dfile=1 @/")
    assert "planted" not in " ".join(spark_submit.argv)
    log = capsys.readouterr().out
    assert "without these secrets: spark.hadoop.fs.s3a.secret.key" in log and "planted" not in log
    assert "--load-spark-defaults" not in spark_submit.argv and spark_submit.argv.count("--properties-file") == 1


def test_spark_submit_reads_a_file_without_secrets_itself(
    table, spark_submit, context, file_copy, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text("spark.executor.memory 2g\n")
    operator(table).execute(context)
    assert not {"--properties-file", "--load-spark-defaults"} & set(spark_submit.argv)


def test_an_unreadable_properties_file_is_rejected_before_the_submission(table, spark_submit, context, kubernetes):
    with pytest.raises(AirflowFailException, match=r"cannot read the file /missing/spark\.conf"):
        operator(table, properties_file="/missing/spark.conf").execute(context)
    assert not spark_submit.was_called


@pytest.mark.parametrize("name", ["spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions"])
def test_executors_read_their_secret_options_from_the_secret_of_the_job(
    table, spark_submit, context, kubernetes, file_copy, name
):
    operator(table, conf={name: '-Dx.password="planted 1" -Xlog:gc:/tmp/{{EXECUTOR_ID}}.log'}).execute(context)
    job, settings = kubernetes.files_of("deltalite-job-"), settings_of(spark_submit.argv)
    assert job[f"{name}.args"] == b'"-Dx.password=planted 1"\n'
    # Spark replaces the placeholder only in the setting, and not in a file.
    assert shlex.split(settings[name]) == ["-Xlog:gc:/tmp/{{EXECUTOR_ID}}.log", f"@/etc/deltalite/job/{name}.args"]
    (secret_name,) = [name for name in kubernetes.secrets if name.startswith("deltalite-job-")]
    assert settings[f"spark.kubernetes.executor.secrets.{secret_name}"] == "/etc/deltalite/job"
    assert "planted" not in " ".join(spark_submit.argv)


def test_invalid_options_of_executors_are_rejected_by_name(table, spark_submit, context, kubernetes):
    name = "spark.executor.extraJavaOptions"
    with pytest.raises(AirflowFailException, match=f"options of Java in {re.escape(name)} are invalid") as caught:
        operator(table, conf={name: "-Dx.password=it's-planted"}).execute(context)
    assert "planted" not in str(caught.value) and not spark_submit.was_called


def test_a_secret_in_conf_takes_precedence_over_a_public_value_in_the_file(
    table, spark_submit, context, kubernetes, file_copy, tmp_path
):
    file = tmp_path / "users.conf"
    file.write_text("spark.example.url jdbc:public\nspark.example.delimiter=\\n\nspark.x \u00a01\n")
    operator(
        table, conf={"spark.example.url": "jdbc:x?password=planted"}, properties_file=str(file), files=str(file)
    ).execute(context)
    assert b"jdbc:x?password=planted" in kubernetes.files_of("deltalite-job-")["java.args"]
    assert parse_properties(file_copy.read_text()) == {"spark.example.delimiter": "\n", "spark.x": "\u00a01"}
    assert spark_submit.argv[spark_submit.argv.index("--files") + 1] == str(file)


def test_a_public_value_in_conf_takes_precedence_over_a_secret_in_the_file(
    table, spark_submit, context, kubernetes, file_copy, tmp_path
):
    file = tmp_path / "users.conf"
    file.write_text("spark.example.url jdbc:x?password=planted\nspark.kubernetes.driverEnv.DB_PASSWORD planted\n")
    reference = "spark.kubernetes.driver.secretKeyRef.DB_PASSWORD"
    conf = {"spark.example.url": "jdbc:public", reference: "mine:key"}
    operator(table, conf=conf, properties_file=str(file)).execute(context)
    assert not [content for content in kubernetes.files_of("deltalite-job-").values() if b"planted" in content]
    settings = settings_of(spark_submit.argv)
    assert settings["spark.example.url"] == "jdbc:public" and reference not in settings
    assert parse_properties(file_copy.read_text()) == {reference: "mine:key"}


def test_variables_of_the_driver_do_not_decide_which_file_is_read(
    table, spark_submit, context, kubernetes, file_copy, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_bytes("# Größe\nspark.x.password planted\n".encode("latin-1"))
    operator(table, env_vars={"SPARK_CONF_DIR": "/opt/spark/conf", "SPARK_HOME": "/opt/spark"}).execute(context)
    assert kubernetes.files_of("deltalite-job-")["java.args"] == b'"-Dspark.x.password=planted"\n'


def test_a_repository_with_a_password_is_rejected_only_if_spark_submit_needs_it(
    table, spark_submit, context, kubernetes, file_copy
):
    repository = {"spark.jars.repositories": "https://u:planted-url@h/maven"}
    with pytest.raises(AirflowFailException, match=r"spark\.jars\.repositories contains a password") as caught:
        operator(table, conf=repository, packages="a:b:1").execute(context)
    assert "planted" not in str(caught.value) and not spark_submit.was_called
    operator(table, conf=repository).execute(context)
    assert "planted" not in " ".join(spark_submit.argv)
