"""Secrets in the settings of a task are recognized and hidden in logs, and no process gets them as arguments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from hypothesis import given, seed
from hypothesis import strategies as st

from airflow_provider_deltalite import secrets
from airflow_provider_deltalite.failures import DeltaJobError
from airflow_provider_deltalite.java_options import java_options, move_java_options_to_files
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from airflow_provider_deltalite.submit_arguments import split_off_secrets
from deltalite.errors import InvalidRequestError
from deltalite.redaction import redacted, secret_values
from tests.support.clusters.yarn import write_sites
from tests.support.fuzzing import examples

SECRET_SETTINGS = {
    "spark.hadoop.fs.s3a.secret.key": "planted-1",
    "spark.hadoop.fs.s3a.access.key": "planted-2",
    "spark.hadoop.fs.s3a.session.token": "planted-3",
    "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net": "planted-4==",
    "spark.hadoop.fs.azure.sas.fixed.token.lake.dfs.core.windows.net": "planted-5",
    "spark.ssl.keyPassword": "planted-6",
}
COPY_PROPERTIES = """
import os, shutil
file = sys.argv[sys.argv.index("--properties-file") + 1]
print("mode", oct(os.stat(file).st_mode))
shutil.copy(file, {copy!r})
from deltalite.markers import result_marker
from deltalite.results import OperationResult
print(result_marker(OperationResult(table="/t", operation="WRITE", version=4, read_version=3, committed=True,
    skipped=False, app_id="a", txn_version=0, timestamp=5)))
"""


def write_task(table, **parameters):
    return DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"}, **parameters)


@pytest.fixture
def properties_copy(tmp_path, spark_submit) -> Path:
    """The path to which the stand-in for spark-submit copies its properties file."""
    copy = tmp_path / "copy.properties"
    spark_submit.set_script(COPY_PROPERTIES.format(copy=str(copy)))
    return copy


def test_secret_settings_are_in_a_private_file_and_not_in_arguments_or_logs(
    table, spark_submit, context, properties_copy, capsys
):
    write_task(table, conf={"spark.x": "1", **SECRET_SETTINGS}).execute(context)
    logged = capsys.readouterr().out
    assert not [text for text in (*spark_submit.argv, logged) if "planted" in text]
    assert spark_submit.argv[spark_submit.argv.index("--conf") + 1] == "spark.x=1"
    assert "--load-spark-defaults" in spark_submit.argv, (
        "without it, the properties file would replace spark-defaults.conf"
    )
    assert properties_copy.read_text() == "".join(f"{name}={value}\n" for name, value in SECRET_SETTINGS.items())
    assert "mode 0o100600" in logged
    properties_file = Path(spark_submit.argv[spark_submit.argv.index("--properties-file") + 1])
    assert not properties_file.exists()


PEM_KEY = "-----BEGIN KEY-----\nplanted-first\nplanted-second\n"


def test_a_secret_in_the_output_is_masked_in_the_log_the_traceback_and_the_error(table, spark_submit, context, capsys):
    spark_submit.set_script("""
from deltalite.markers import error_marker
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
        conf=SECRET_SETTINGS | {"fs.gs.private.key": PEM_KEY},
    )
    with pytest.raises(DeltaJobError, match=r"ValueError: no \*\*\*, no \*\*\*"):
        task.execute(context)
    logged = capsys.readouterr().out
    assert "INFO Conf: key is ***" in logged and "ValueError: no ***, no ***" in logged
    assert "planted" not in logged


def test_the_properties_file_of_the_user_comes_before_the_secrets(
    table, spark_submit, context, properties_copy, tmp_path
):
    user_file = tmp_path / "users.conf"
    user_file.write_text("spark.ssl.keyPassword old\nspark.y 2")
    user_file.chmod(0o644)
    write_task(table, conf={"spark.ssl.keyPassword": "planted-6"}, properties_file=str(user_file)).execute(context)
    assert properties_copy.read_text() == "spark.ssl.keyPassword old\nspark.y 2\nspark.ssl.keyPassword=planted-6\n"
    assert str(user_file) not in spark_submit.argv and "--load-spark-defaults" not in spark_submit.argv
    assert user_file.read_text() == "spark.ssl.keyPassword old\nspark.y 2"


def test_secret_environment_variables_of_a_cluster_are_not_arguments(
    table, spark_submit, context, properties_copy, monkeypatch, tmp_path
):
    cluster = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(cluster))
    write_sites(tmp_path, {"yarn-site": {"yarn.nodemanager.log-container-debug-info.enabled": "false"}})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    table.create()
    write_task(table, shared_folder=True, env_vars={"AWS_SECRET_ACCESS_KEY": "planted", "REGION": "eu"}).execute(
        context
    )
    assert properties_copy.read_text() == "spark.yarn.appMasterEnv.AWS_SECRET_ACCESS_KEY=planted\n"
    assert "spark.yarn.appMasterEnv.REGION=eu" in spark_submit.argv


def test_a_task_without_secrets_gets_no_properties_file(table, spark_submit, context):
    with pytest.raises(AirflowException, match="does not show what this run did"):  # the stand-in reports no result
        write_task(table, conf={"spark.x": "1"}).execute(context)
    assert not {"--properties-file", "--load-spark-defaults"} & set(spark_submit.argv)


def test_airflow_masks_the_secrets_of_every_parameter_before_it_stores_them(table, monkeypatch):
    masked_values = []
    monkeypatch.setattr(secrets, "mask_secret", masked_values.append)
    task = write_task(
        table,
        conf={"spark.hadoop.fs.s3a.access.key": "{{ key }}", "spark.x.token.enabled": "true"},
        env_vars={"AWS_SECRET_ACCESS_KEY": "planted-b"},
    )
    task.source = {
        "format": "jdbc",
        "options": {"password": "planted-c", "url": "jdbc:x://h/db?user=u&password=planted-d&ssl=true"},
    }
    task.render_template_fields({"key": "planted-a"})
    assert sorted(set(masked_values)) == ["planted-a", "planted-b", "planted-c", "planted-d"]


# Names of settings with a secret value, and texts in which `{}` stands for a secret.
SECRET_NAMES = [
    "my.secret", "x.password", "ssl.keystore.pass", "fs.s3a.server-side-encryption.key", "fs.s3a.bucket.b.secret.key",
    "fs.s3a.bucket.b.server-side-encryption.key", "fs.s3a.encryption.algorithm", "fs.s3a.encryption.key",
    "fs.s3a.encryption.context", "fs.s3a.secret.key", "fs.s3a.session.key", "fs.s3a.bucket.b.session.key",
    "fs.s3a.session.token", "fs.s3a.bucket.b.session.token", "fs.azure.account.key.lake.dfs.core.windows.net",
    "fs.azure.oauth2.client.id", "fs.adl.oauth2.refresh.url", "fs.gs.encryption.key.hash", "fs.gs.proxy.username",
    "fs.gs.auth.service.account.private.key.id", "x.credential", "oauth.my.secret", "oauth2.password", "oauth.a.token",
    "hadoop.security.sensitive-config-keys", "fs.azure.sas.fixed.token.lake", "fs.azure.sas.c.lake",
    "spark.ssl.keyPassword",
    "kafka.sasl.jaas.config", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "PGPASSWORD", "MYSQL_PWD", "sfPrivateKey",
    "pem_private_key", "parquet.encryption.key.list", "apiKey", "credentials", "header.Authorization", "db.pass",
    "azure.storage.connection-string", "connectionString", "sharedAccessKey", "passphrase", "sig", "api_tokens",
    "tokens", "max_token", "admin_tokens", "x.token.count.y", "max_tokens.access_token",
]  # fmt: skip
TEXTS_WITH_SECRET = [
    "-Djavax.net.ssl.trustStorePassword={} -Dx=1", '-Dmy.password="{}"', "-Da=1 '-Dmy.secret={}'",
    "https://user:{}@repo.example/maven", "ftp://u:{}@h:21/in/*.csv", "jdbc:postgresql://u:{}@h/db",
    "jdbc:oracle:thin:scott/{}@//h:1521/s", 'jdbc:oracle:thin:scott/"{}"@h:1521:s', "jdbc:oracle:oci:scott/{}@tns",
    "scott/{}@//h:1521/s", "jdbc:x://h/db?user=u&password={}&ssl=true", "jdbc:sqlserver://h;user=u;password={};x=y",
    "jdbc:sqlserver://h;password={{{}}};x=y", "AccountName=a;AccountKey={}==;EndpointSuffix=core.windows.net",
    "SharedAccessSignature=sv=2020&sr=c&sig={}", "https://a.blob.core.windows.net/c/x.csv?sv=2020&sig={}",
    "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey={};EntityPath=p",
    "https://b.s3.amazonaws.com/x?X-Amz-Credential=c&X-Amz-Signature={}", "https://h/x?X-Amz-Security-Token={}&y=1",
    'o.a.k.c.s.plain.PlainLoginModule required username="u" password="{}";',
    "o.a.k.c.s.scram.ScramLoginModule required username=u password = '{}' ;",
    '{{"user": "u", "password": "{}"}}', "{{'user': 'u', 'api_key': '{}'}}", '[{{"token": "{}"}}]',
    "Authorization: Bearer {}", "Authorization: Basic {}", "accessToken={}", "client_secret={},scope=x",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
]  # fmt: skip
PLANTED_SECRET = st.from_regex(r"planted[A-Za-z0-9~+_]{3,20}planted", fullmatch=True)
SETTING_WITH_SECRET = st.one_of(
    st.tuples(st.sampled_from(SECRET_NAMES), PLANTED_SECRET),
    st.tuples(
        st.sampled_from(["spark.x", "url", "option"]),
        st.builds(str.format, st.sampled_from(TEXTS_WITH_SECRET), PLANTED_SECRET),
    ),
)
PARAMETERS = ["conf", "env_vars", "options", "user_metadata", "query_params", "sources"]
SETTINGS_WITH_SECRETS = st.lists(SETTING_WITH_SECRET, min_size=5, max_size=30).map(dict)


@pytest.fixture
def hide_secrets():
    """A function that hides the secrets of a task's values in a text, as Airflow's masker does."""

    def replace_secrets(task_values, text):
        for secret in sorted(set(secret_values(task_values)), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    return replace_secrets


@seed(8)
@examples(150)
@given(task_settings=SETTINGS_WITH_SECRETS, parameter=st.sampled_from(PARAMETERS))
def test_a_planted_secret_is_hidden_in_every_spelling_and_parameter(hide_secrets, task_settings, parameter):
    values_of_parameter = {
        "user_metadata": " ".join(f"{name}={value}" for name, value in task_settings.items()),
        "sources": [{"options": [task_settings]}],
    }
    task_values = {parameter: values_of_parameter.get(parameter, task_settings)}
    sentences = "\n".join(f"{name} is {value}" for name, value in task_settings.items())
    for text in (json.dumps(task_values), repr(task_values), sentences):
        assert "planted" not in hide_secrets(task_values, text)
    assert "planted" not in redacted(json.dumps(task_values))


@seed(8)
@examples(150)
@given(
    task_settings=SETTINGS_WITH_SECRETS,
    driver_options=st.sampled_from([*TEXTS_WITH_SECRET[:3], "-Dx=1"]),
    secret=PLANTED_SECRET,
)
def test_a_planted_secret_is_never_an_argument_of_a_process(task_settings, driver_options, secret):
    arguments = [
        "--master",
        "yarn",
        "--repositories",
        f"https://u:{secret}@h/maven",
        "--jars",
        f"https://h/x?sig={secret}",
    ]
    spark_settings = {**task_settings, "spark.driver.extraJavaOptions": driver_options.format(secret)}
    for name, value in spark_settings.items():
        arguments += ["--conf", f"{name}={value}"]
    remaining_arguments, moved_settings = split_off_secrets([*arguments, "--deploy-mode", "client"])
    assert "planted" not in " ".join(remaining_arguments)
    assert remaining_arguments[:2] == ["--master", "yarn"]
    assert remaining_arguments[-2:] == ["--deploy-mode", "client"]
    for name, value in spark_settings.items():
        assert moved_settings.get(name) == value or f"{name}={value}" in remaining_arguments
    assert moved_settings["spark.jars.repositories"] == f"https://u:{secret}@h/maven"


def test_an_option_takes_precedence_over_its_setting():
    arguments = ["--conf", "spark.jars=/a.jar", "--jars", "https://u:planted@h/b.jar"]
    assert split_off_secrets(arguments) == ([], {"spark.jars": "https://u:planted@h/b.jar"})


def test_a_secret_that_is_too_short_to_be_masked_is_not_an_argument():
    arguments = ["--conf", "spark.x=-Dmy.password=abc", "--conf", "a.token.enabled=true"]
    remaining_arguments, moved_settings = split_off_secrets(arguments)
    assert moved_settings == {"spark.x": "-Dmy.password=abc"}
    assert remaining_arguments == ["--conf", "a.token.enabled=true"]


@pytest.mark.parametrize("text", ["{{ rows }}", "{[]: 1}", "[{}, {{1}}]", "{" * 10_000, "[" * 10_000])
def test_a_text_that_only_begins_like_a_structure_is_an_ordinary_text(text):
    assert list(secret_values({"source": text})) == []


@pytest.mark.parametrize(
    "text",
    ["/lake/orders@v3", "abfss://container@lake.dfs.core.windows.net/x", "http://h:8080/a/b", "s3://bucket/a@b/c",
     "max_tokens=4096000,token_count=1234567",
     "SELECT a/b FROM x WHERE c = 'password'", "id=1,day=2026-01-01", "spark://host:7077", "12:30:00 and 1:2"],
)  # fmt: skip
def test_harmless_texts_are_shown(text):
    assert redacted(text) == text


def test_options_of_the_driver_jvm_are_in_a_file_that_java_reads(tmp_path):
    spark_settings = {
        "spark.driver.extraJavaOptions": r"-Dmy.password='planted \"x\" \\y' -Dother=1",
        "spark.x.secret": "planted",
    }
    settings_with_file = move_java_options_to_files(spark_settings, tmp_path)
    options_file = tmp_path / "spark.driver.extraJavaOptions.args"
    assert settings_with_file == {"spark.driver.extraJavaOptions": f"@{options_file}", "spark.x.secret": "planted"}
    assert options_file.stat().st_mode & 0o777 == 0o600
    command = ["java", settings_with_file["spark.driver.extraJavaOptions"], "-XshowSettings:properties", "-version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert r"my.password = planted \"x\" \\y" in output and "other = 1" in output


def test_lineage_and_history_show_no_secret(table, context):
    options = {"url": "jdbc:x://h/db", "password": "planted-option"}
    task = DeltaWriteOperator(
        task_id="load",
        table=str(table),
        sources={
            "a": {"format": "csv", "path": "ftp://u:planted-url@h/in/x.csv"},
            "b": {"format": "x", "options": options},
        },
        query="SELECT *, 'jdbc:x://h?password=planted-query' AS origin FROM a CROSS JOIN b",
        user_metadata="from ftp://u:planted-url@h with planted-option",
    )
    lineage = task.get_openlineage_facets_on_start()
    assert [(dataset.namespace, dataset.name) for dataset in lineage.inputs] == [("ftp://h", "/in/x.csv")]
    assert "planted" not in repr(lineage)
    assert task.prepare_request(task._request(), context).user_metadata == "from ftp://u:***@h with ***"


@pytest.mark.parametrize(
    "convert", [java_options, lambda settings: move_java_options_to_files(settings, Path("/none"))]
)
def test_java_options_with_an_open_quote_are_rejected(convert):
    with pytest.raises(InvalidRequestError, match=r"options of Java in spark\.driver\.extraJavaOptions are invalid"):
        convert({"spark.driver.extraJavaOptions": "-Dpassword='a"})


def test_java_options_with_a_secret_reach_spark_submit_as_the_name_of_a_file(
    table, spark_submit, context, properties_copy
):
    options = "-Djavax.net.ssl.trustStorePassword=planted-java"
    write_task(
        table,
        conf={"spark.driver.extraJavaOptions": options},
        env_vars={"SPARK_SUBMIT_OPTS": "-Dx.password=planted-submit"},
        repositories="https://u:planted-url@h/maven",
    ).execute(context)
    assert "planted" not in json.dumps([spark_submit.argv, spark_submit.env["SPARK_SUBMIT_OPTS"]])
    assert spark_submit.env["SPARK_SUBMIT_OPTS"].startswith("@/")
    properties = properties_copy.read_text()
    assert "spark.driver.extraJavaOptions=@/" in properties
    assert "spark.jars.repositories=https://u:planted-url@h/maven" in properties
