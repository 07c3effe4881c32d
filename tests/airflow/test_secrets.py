"""Secrets among the settings of a task: found by name, hidden from logs, and never an argument of a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_deltalite import secrets
from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "planted-1",
    "spark.hadoop.fs.s3a.access.key": "planted-2",
    "spark.hadoop.fs.s3a.session.token": "planted-3",
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "planted-4==",
    "spark.hadoop.fs.azure.sas.fixed.token.lake.dfs.core.windows.net": "planted-5",
    "spark.ssl.keyPassword": "planted-6",
}
KEEPS_ITS_PROPERTIES = """
import os, shutil
file = sys.argv[sys.argv.index("--properties-file") + 1]
print("mode", oct(os.stat(file).st_mode))
shutil.copy(file, {kept!r})
from deltalite.results import OperationResult, result_marker
print(result_marker(OperationResult(table="/t", operation="WRITE", version=4, read_version=3, committed=True,
    skipped=False, app_id="a", txn_version=0, timestamp=5)))
"""


def load(table, **parameters):
    return DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"}, **parameters)


@pytest.fixture
def kept(tmp_path, spark_submit) -> Path:
    spark_submit.does(KEEPS_ITS_PROPERTIES.format(kept=str(tmp_path / "kept")))
    return tmp_path / "kept"


def test_secret_settings_are_in_a_private_file_and_neither_arguments_nor_logged(
    table, spark_submit, context, kept, capsys
):
    load(table, conf={"spark.x": "1", **SECRETS}).execute(context)
    logged = capsys.readouterr().out
    assert not [text for text in (*spark_submit.argv, logged) if "planted" in text]
    assert spark_submit.argv[spark_submit.argv.index("--conf") + 1] == "spark.x=1"
    assert "--load-spark-defaults" in spark_submit.argv, "a properties file would be instead of spark-defaults.conf"
    assert kept.read_text() == "".join(f"{name}={value}\n" for name, value in SECRETS.items())
    assert "mode 0o100600" in logged
    file = Path(spark_submit.argv[spark_submit.argv.index("--properties-file") + 1])
    assert not file.exists()


PEM = "-----BEGIN KEY-----\nplanted-first\nplanted-second\n"


def test_what_the_job_prints_of_a_secret_is_stars_in_the_log_the_traceback_and_the_error(
    table, spark_submit, context, capsys
):
    spark_submit.does("""
from deltalite.results import error_marker
print("26/01/01 00:00:00 INFO Conf: key is planted-2")
print("Traceback (most recent call last):\\nValueError: no planted-2, no planted-7")
print("  of -----BEGIN KEY-----\\nplanted-first\\nplanted-second\\n")
print(error_marker("ValueError", "no planted-2, no planted-7"))
sys.exit(1)
""")
    options = {"url": "jdbc:x://h/db?user=u&password=planted-7"}
    task = DeltaWriteOperator(
        task_id="load",
        table=str(table),
        source={"format": "jdbc", "options": options},
        conf=SECRETS | {"fs.gs.private.key": PEM},
    )
    with pytest.raises(DeltaJobError, match=r"ValueError: no \*\*\*, no \*\*\*"):
        task.execute(context)
    logged = capsys.readouterr().out
    assert "INFO Conf: key is ***" in logged and "ValueError: no ***, no ***" in logged
    assert "planted" not in logged


def test_a_properties_file_of_the_users_own_is_kept_below_them(table, spark_submit, context, kept, tmp_path):
    own = tmp_path / "own.conf"
    own.write_text("spark.ssl.keyPassword old\nspark.y 2")
    own.chmod(0o644)
    load(table, conf={"spark.ssl.keyPassword": "planted-6"}, properties_file=str(own)).execute(context)
    assert kept.read_text() == "spark.ssl.keyPassword old\nspark.y 2\nspark.ssl.keyPassword=planted-6\n"
    assert str(own) not in spark_submit.argv and "--load-spark-defaults" not in spark_submit.argv
    assert own.read_text() == "spark.ssl.keyPassword old\nspark.y 2"


def test_environment_variables_that_become_settings_of_a_cluster_are_no_arguments_either(
    table, spark_submit, context, kept, monkeypatch
):
    cluster = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster))
    table.create()
    load(table, env_vars={"AWS_SECRET_ACCESS_KEY": "planted", "REGION": "eu"}).execute(context)
    assert kept.read_text() == "spark.yarn.appMasterEnv.AWS_SECRET_ACCESS_KEY=planted\n"
    assert "spark.yarn.appMasterEnv.REGION=eu" in spark_submit.argv


def test_without_secrets_nothing_is_added(table, spark_submit, context):
    with pytest.raises(Exception, match="does not show"):
        load(table, conf={"spark.x": "1"}).execute(context)
    assert not {"--properties-file", "--load-spark-defaults"} & set(spark_submit.argv)


def test_airflow_is_told_the_secrets_of_every_parameter_before_it_stores_them(table, monkeypatch):
    hidden = []
    monkeypatch.setattr(secrets, "mask_secret", hidden.append)
    task = load(
        table,
        conf={"spark.hadoop.fs.s3a.access.key": "{{ key }}", "spark.x.token.enabled": "true"},
        env_vars={"AWS_SECRET_ACCESS_KEY": "planted-b"},
    )
    task.source = {
        "format": "jdbc",
        "options": {"password": "planted-c", "url": "jdbc:x://h/db?user=u&password=planted-d&ssl=true"},
    }
    task.render_template_fields({"key": "planted-a"})
    assert sorted(hidden) == ["planted-a", "planted-b", "planted-c", "planted-d"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("a\\b", "a\\\\b"),
        ("two\nlines\tand tabs", "two\\nlines\\tand tabs"),
        (" begins with a space", "\\ begins with a space"),
        ("a=b:c#d!", "a=b:c#d!"),
    ],
)
def test_values_are_written_as_java_reads_them(text, written):
    assert secrets.properties_text({"name": text}) == f"name={written}\n"
