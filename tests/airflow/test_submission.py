"""A task from its parameters to its XCom. Airflow's own hook calls a stand-in for spark-submit."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowNotFoundException
from airflow.sdk import DAG, Asset, AssetAlias

from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError
from airflow_provider_deltalite.operators._spark_submission import SparkSubmission
from airflow_provider_deltalite.operators.delta import DeltaCheckpointOperator
from airflow_provider_deltalite.shipping import ShippedJob
from deltalite.errors import StoragePermissionError
from deltalite.requests import CheckpointRequest, OnRerun, WriteRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.airflow.rendering import TEXT_AND_NATIVE
from tests.support.stand_in_jobs import (
    APP_ID,
    COPY_REQUEST,
    PRINT_ERROR,
    PRINT_RESULT,
    job_that_commits,
    operator,
)

YARN_CONNECTION = '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}'


def test_the_result_of_the_job_is_the_xcom_and_the_event_of_each_outlet_asset(table, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    orders = Asset("orders")
    result = operator(table, outlets=[orders]).execute(context)
    assert result == {
        "table": "/t",
        "operation": "WRITE",
        "version": 4,
        "read_version": 3,
        "committed": True,
        "skipped": False,
        "app_id": APP_ID,
        "txn_version": 0,
        "timestamp": 5,
        "metrics": {"numOutputRows": 2},
    }
    assert context["outlet_events"][orders].extra == result
    assert json.loads(json.dumps(result)) == result


def test_an_asset_alias_gets_an_event_of_the_tables_asset(table, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    lake, added_events = AssetAlias("lake"), []
    context["outlet_events"][lake] = SimpleNamespace(add=lambda asset, extra: added_events.append((asset, extra)))
    result = operator(table, outlets=[lake]).execute(context)
    assert added_events == [(delta_asset("/t"), result)]


def test_the_job_gets_the_request_the_library_and_this_interpreter(table, spark_submit, context):
    request_copy = table.root.parent.parent / "request.json"
    spark_submit.set_script(COPY_REQUEST.format(copy=str(request_copy)) + PRINT_RESULT)
    table.root.parent.mkdir()
    operator(table, py_files="/mine.py", conf={"spark.x": "1"}, driver_memory="2G").execute(context)
    argv = spark_submit.argv
    assert argv[:2] == ["--master", "local[*]"]
    assert argv[argv.index("--conf") + 1] == "spark.x=1"
    assert argv[argv.index("--driver-memory") + 1] == "2G"
    library, file_of_author = argv[argv.index("--py-files") + 1].split(",")
    assert file_of_author == "/mine.py" and "deltalite/requests/__init__.py" in zipfile.ZipFile(library).namelist()
    assert argv[-2].endswith("/deltalite/jobs/write.py")
    assert spark_submit.env["PYSPARK_PYTHON"] == sys.executable
    request = WriteRequest.from_json(request_copy.read_text())
    assert request.table == str(table)
    assert request.identity.app_id == APP_ID and request.identity.on_rerun is OnRerun.SKIP
    assert request.identity.details["try_number"] == 1
    assert not Path(argv[-1]).exists()


def test_the_log_has_the_lines_of_spark_and_no_markers(table, spark_submit, context, capsys):
    spark_submit.set_script(PRINT_RESULT)
    operator(table).execute(context)
    log = capsys.readouterr().out
    assert "DELTALITE-RESULT" not in log
    assert "WARN SparkContext: Running" in log


PRINT_INFO_LINE = "print('26/01/01 00:00:00 INFO DAGScheduler: ResultStage 7 failed')\n"


def test_spark_lines_are_logged_from_the_level_of_the_setting_or_the_task(
    table, spark_submit, context, capsys, monkeypatch
):
    spark_submit.set_script(PRINT_INFO_LINE + PRINT_RESULT)
    operator(table).execute(context)
    assert "ResultStage 7" not in capsys.readouterr().out, "the default is WARN"
    operator(table, conf={"spark.log.level": "INFO"}).execute(context)
    assert "ResultStage 7" in capsys.readouterr().out
    monkeypatch.setenv("AIRFLOW__DELTALITE__SPARK_LOG_LEVEL", "INFO")
    operator(table).execute(context)
    assert "ResultStage 7" in capsys.readouterr().out


def test_the_log_of_a_failed_job_has_the_lines_below_the_level_in_a_group(table, spark_submit, context, capsys):
    spark_submit.set_script(PRINT_INFO_LINE + "sys.exit(134)")
    with pytest.raises(DeltaJobError):
        operator(table).execute(context)
    log = capsys.readouterr().out
    group = log.index("::group::Spark's lines below the log level")
    assert group < log.index("ResultStage 7") < log.index("::endgroup::", group)


def test_the_rendered_fields_show_the_name_of_the_spark_application(table, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    with DAG("sales", schedule=None, default_args={"owner": "me"}):
        load = operator(table)
    load.render_template_fields({})
    assert load.name == "sales.load (deltalite write)"
    load.execute(context)
    assert spark_submit.argv[spark_submit.argv.index("--name") + 1] == load.name


@TEXT_AND_NATIVE
def test_a_name_that_the_author_sets_takes_precedence_even_in_default_args(table, spark_submit, context, native):
    spark_submit.set_script(PRINT_RESULT)
    defaults = {"name": "etl {{ team }}"}
    with DAG("sales", schedule=None, default_args=defaults, render_template_as_native_obj=native):
        load = operator(table)
    load.render_template_fields({"team": "a"})
    load.execute(context)
    assert spark_submit.argv[spark_submit.argv.index("--name") + 1] == load.name == "etl a"


def test_a_mapped_task_shows_its_name_too():
    with DAG("sales", schedule=None):
        mapped = DeltaCheckpointOperator.partial(task_id="checkpoint").expand(table=["/a"])
    task = mapped.unmap({"table": "/a"})
    task._do_render_template_fields(task, mapped.template_fields, {}, mapped.get_template_env(), set())
    assert task.name == "sales.checkpoint (deltalite checkpoint)"


def test_invalid_bytes_in_the_output_do_not_fail_the_task(table, spark_submit, context, capsys):
    """A job may quote a file of any encoding."""
    spark_submit.set_script(
        "sys.stdout.flush(); sys.stdout.buffer.write(b'head \\xff\\xfe of a file\\n'); sys.stdout.flush()\n"
        + PRINT_RESULT
    )
    assert operator(table).execute(context)["committed"]
    assert "head \ufffd\ufffd of a file" in capsys.readouterr().out


def test_one_operator_object_can_run_twice(table, spark_submit, context):
    load = operator(table)
    spark_submit.set_script(PRINT_RESULT)
    load.execute(context)
    spark_submit.set_script(PRINT_ERROR.format(kind="SchemaMismatchError", code=51))
    with pytest.raises(AirflowFailException, match="column x"):
        load.execute(context)
    assert spark_submit.argv.count("--py-files") == 1
    assert "," not in spark_submit.argv[spark_submit.argv.index("--py-files") + 1]


@pytest.mark.parametrize(
    ("kind", "code", "error_class"),
    [("SchemaMismatchError", 51, AirflowFailException), ("ConcurrentAppendException", 84, DeltaConflictError)],
)
def test_the_exit_code_decides_whether_the_task_is_retried(table, spark_submit, context, kind, code, error_class):
    spark_submit.set_script(PRINT_ERROR.format(kind=kind, code=code))
    with pytest.raises(AirflowException, match=f"{kind}: column x does not exist") as caught:
        operator(table).execute(context)
    assert type(caught.value) is error_class


def test_a_process_that_dies_after_its_commit_is_a_success(table, spark_submit, context):
    table.create()
    spark_submit.set_script(job_that_commits(table, exit_code=134))
    result = operator(table).execute(context)
    assert (result["version"], result["committed"], result["skipped"]) == (1, True, False)


def test_a_process_that_dies_before_its_commit_fails_as_spark_submit_does(table, spark_submit, context):
    table.create()
    spark_submit.set_script("print('java.lang.OutOfMemoryError'); sys.exit(134)")
    with pytest.raises(DeltaJobError, match=r"(?s)Error code is: 134.*OutOfMemoryError"):
        operator(table).execute(context)


def test_a_truncated_result_line_is_replaced_by_the_commit_in_the_log(table, spark_submit, context):
    table.create()
    spark_submit.set_script("print('DELTALITE-RESULT 00000000 {\"tab')\n" + job_that_commits(table))
    assert operator(table).execute(context)["version"] == 1


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_a_successful_job_without_result_or_commit_is_a_failure_in_every_mode(table, spark_submit, context, mode):
    table.create()
    with pytest.raises(AirflowException, match="does not show what this run did"):
        operator(table, mode=mode).execute(context)


def test_a_corrupt_log_fails_the_task_before_a_job_is_submitted(table, spark_submit, context):
    table.create()
    table.root.joinpath("_delta_log", f"{1:020}.json").write_text("{not json\n")
    with pytest.raises(AirflowFailException, match="CorruptLogError"):
        operator(table).execute(context)
    assert not spark_submit.was_called


def test_a_bad_parameter_fails_the_task_at_once_with_its_typed_cause(table, spark_submit, context):
    task = operator(table)
    task.mode = "upsert"  # Rendering a template sets the attribute in the same way.
    with pytest.raises(AirflowFailException, match="InvalidRequestError: mode is 'upsert'") as caught:
        task.execute(context)
    assert type(caught.value.__cause__).__name__ == "InvalidRequestError"
    assert not spark_submit.was_called


def test_a_connection_that_airflow_does_not_find_is_retried(table, spark_submit, context):
    with pytest.raises(AirflowNotFoundException, match="no Airflow connection 'nowhere'") as caught:
        operator(table, conn_id="nowhere").execute(context)
    assert not isinstance(caught.value, AirflowFailException)
    assert not spark_submit.was_called


@pytest.mark.usefixtures("without_gcsfs")
def test_the_job_checks_a_table_that_only_spark_can_read(spark_submit, context, capsys):
    spark_submit.set_script(PRINT_RESULT)
    assert operator("gs://lake/orders").execute(context)["version"] == 4
    assert "airflow-provider-deltalite[gcs]" in capsys.readouterr().out
    spark_submit.set_script("")
    with pytest.raises(AirflowException, match="this worker cannot read the log of gs://lake/orders"):
        operator("gs://lake/orders").execute(context)
    spark_submit.set_script(PRINT_ERROR.format(kind="SchemaMismatchError", code=51))
    with pytest.raises(AirflowFailException, match="SchemaMismatchError"):
        operator("gs://lake/orders").execute(context)


def test_the_job_checks_a_table_without_permission_for_the_worker(spark_submit, context, monkeypatch, capsys):
    monkeypatch.setattr(FsspecLogStore, "list_from", deny_access)
    spark_submit.set_script(PRINT_RESULT)
    assert operator("memory://lake/orders").execute(context)["version"] == 4
    assert "no key" in capsys.readouterr().out


def deny_access(*_arguments):
    raise StoragePermissionError("There is no key.", remedy="Give one.")


@pytest.mark.usefixtures("without_gcsfs")
def test_a_storage_connection_that_the_worker_cannot_use_is_rejected(table, spark_submit, context, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", '{"conn_type": "google_cloud_platform"}')
    for address, message in ((str(table), "is local"), ("gs://lake/orders", "without Spark")):
        with pytest.raises(AirflowFailException, match=f"UnsupportedStorageError.*{message}"):
            operator(address, storage_conn_id="lake").execute(context)
    assert not spark_submit.was_called


def test_in_cluster_mode_the_request_is_shipped_and_the_result_read_from_the_log(
    table, spark_submit, context, monkeypatch
):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", YARN_CONNECTION)
    table.create()
    spark_submit.set_script(job_that_commits(table))
    assert operator(table, files="/mine.txt", shared_folder=True).execute(context)["version"] == 1
    argv = spark_submit.argv
    file_of_author, request = argv[argv.index("--files") + 1].split(",")
    assert file_of_author == "/mine.txt"
    assert argv[-1] == Path(request).name
    assert "PYSPARK_DRIVER_PYTHON" not in spark_submit.env


def test_a_second_execution_of_an_operator_object_does_not_reuse_the_first_result(table, spark_submit, context):
    table.create()
    load = operator(table)
    spark_submit.set_script(PRINT_RESULT)
    load.execute(context)
    first_request = spark_submit.argv[-1]
    spark_submit.set_script("")
    with pytest.raises(AirflowException, match="does not show what this run did"):
        load.execute(context)
    assert spark_submit.argv[-1] != first_request


def test_killing_a_task_before_it_submits_does_nothing(table, spark_submit):
    operator(table, conn_id="nowhere").on_kill()


def test_the_author_can_name_another_script(table, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    operator(table, application="local:///opt/jobs/write.py").execute(context)
    assert spark_submit.argv[-2] == "local:///opt/jobs/write.py"


def test_every_parameter_of_airflows_operator_reaches_the_hook(table, spark_submit):
    parameters = {
        "conf": {"spark.a": "1"},
        "files": "f",
        "py_files": "p",
        "archives": "a",
        "driver_class_path": "d",
        "jars": "j",
        "packages": "k",
        "exclude_packages": "e",
        "repositories": "r",
        "total_executor_cores": 1,
        "executor_cores": 2,
        "executor_memory": "3G",
        "driver_memory": "4G",
        "keytab": "kt",
        "principal": "pr",
        "proxy_user": "u",
        "name": "n",
        "num_executors": 5,
        "status_poll_interval": 6,
        "env_vars": {"A": "b"},
        "verbose": True,
        "spark_binary": "spark-submit",
        "properties_file": "pf",
        "yarn_queue": "q",
        "deploy_mode": "client",
        "post_submit_commands": ["true"],
    }
    load = operator(table, **parameters)
    job = ShippedJob(script="s", library="l.zip", request="/tmp/r", settings="/tmp/s", nonce="a1")
    load.submission = SparkSubmission(load, job, [], None)
    hook, airflows_hook = load._get_hook(), SparkSubmitOperator(task_id="x", **parameters)._get_hook()
    attributes_that_differ = {"_py_files", "_application_args", "_yarn_application_id", "_kubernetes_driver_pod"}
    assert {
        name: value
        for name, value in vars(hook).items()
        if name in vars(airflows_hook) and name not in attributes_that_differ
    } == {name: value for name, value in vars(airflows_hook).items() if name not in attributes_that_differ}
    assert hook._py_files == "l.zip,p"


EXIT_WITH_CODE = "sys.exit({code})"
WRITE_CHECKPOINT = """
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
write_checkpoint(Snapshot.load(LocalLogStore({root!r})), now_ms=1)
"""


@pytest.mark.parametrize("code", [0, 137])
def test_a_checkpoint_in_the_log_is_the_result_of_a_job_without_a_result(table, spark_submit, context, code):
    table.create()
    copy_request = COPY_REQUEST.format(copy=str(table.root.parent.parent / "request.json"))
    spark_submit.set_script(copy_request + WRITE_CHECKPOINT.format(root=str(table)) + EXIT_WITH_CODE.format(code=code))
    task = DeltaCheckpointOperator(task_id="checkpoint", table=str(table))
    result = task.execute(context)
    assert (result["operation"], result["version"], result["committed"]) == ("CHECKPOINT", 0, False)
    request = CheckpointRequest.from_json((table.root.parent.parent / "request.json").read_text())
    assert (request.table, request.log_cleanup, request.single_writer) == (str(table), True, False)
    assert Path(spark_submit.argv[-2]).name == "checkpoint.py"


def test_an_older_checkpoint_is_not_the_result_of_a_failed_job(table, spark_submit, context):
    table.create()
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=1)
    table.commit(1, table.add())
    spark_submit.set_script(EXIT_WITH_CODE.format(code=137))
    with pytest.raises(AirflowException):
        DeltaCheckpointOperator(task_id="checkpoint", table=str(table)).execute(context)


def test_an_existing_checkpoint_is_not_the_result_of_a_failed_job(table, spark_submit, context):
    table.create()
    write_checkpoint(Snapshot.load(LocalLogStore(str(table))), now_ms=1)
    spark_submit.set_script(EXIT_WITH_CODE.format(code=1))
    with pytest.raises(AirflowException):
        DeltaCheckpointOperator(task_id="checkpoint", table=str(table)).execute(context)
    spark_submit.set_script("")
    assert DeltaCheckpointOperator(task_id="checkpoint", table=str(table)).execute(context)["version"] == 0


@pytest.mark.parametrize("address", ["{path}", "file://{path}"])
@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_a_local_table_on_a_cluster_is_rejected_unless_the_author_confirms_the_shared_folder(
    table, spark_submit, context, monkeypatch, address, deploy_mode
):
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": deploy_mode}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    table.create()
    spark_submit.set_script(job_that_commits(table))
    table_address = address.format(path=table.root)
    with pytest.raises(AirflowFailException, match=r"is a folder of one machine(?s:.*)shared_folder=True"):
        operator(table_address).execute(context)
    assert not spark_submit.was_called
    assert operator(table_address, shared_folder=True).execute(context)["version"] == 1
