"""Secrets in the file of `spark-submit`, and secrets for executors, with a stand-in for Kubernetes' API."""

from __future__ import annotations

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
    token_file = [line.split("=", 1)[1] for line in open({copy!r}) if "oauthTokenFile=" in line]
    if token_file:
        print("token has", len(open(token_file[0].strip()).read()), "characters")
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


def test_secrets_of_the_file_are_in_the_secret_of_the_job_only(
    table, spark_submit, context, kubernetes, file_copy, file_parameters
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


def test_executors_read_their_secret_options_from_the_secret_of_the_job(
    table, spark_submit, context, kubernetes, file_copy
):
    options = "spark.executor.extraJavaOptions"
    operator(table, conf={options: '-Dx.password="planted 1" -Xss4m'}).execute(context)
    job, settings = kubernetes.files_of("deltalite-job-"), settings_of(spark_submit.argv)
    assert job[f"{options}.args"] == b'"-Dx.password=planted 1"\n"-Xss4m"\n'
    assert settings[options] == f"@/etc/deltalite/job/{options}.args"
    (secret_name,) = [name for name in kubernetes.secrets if name.startswith("deltalite-job-")]
    assert settings[f"spark.kubernetes.executor.secrets.{secret_name}"] == "/etc/deltalite/job"
    assert "planted" not in " ".join(spark_submit.argv)


def test_spark_submit_gets_its_token_in_a_private_file(table, spark_submit, context, kubernetes, file_copy, capsys):
    setting = "spark.kubernetes.authenticate.submission.oauthToken"
    operator(table, conf={setting: "planted-token"}).execute(context)
    assert list(parse_properties(file_copy.read_text())) == [f"{setting}File"]
    assert "token has 13 characters" in capsys.readouterr().out
    assert "planted" not in " ".join([*spark_submit.argv, *map(str, kubernetes.files_of("deltalite-job-").values())])
