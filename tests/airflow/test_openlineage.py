"""The OpenLineage events of a DAG run name tables, versions and statistics. Only spark-submit is a stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.airflow.dag_run_process import run_dag_program

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("lineage_dag_run.py")
# The stand-in for the job commits a WRITE or a MERGE as the real job does. It rejects a DELETE.
JOB_SCRIPT = """
import json, os
from deltalite.markers import error_marker, result_marker
from deltalite.results import OperationResult
request = json.load(open(sys.argv[-1]))
with open({calls!r}, "a") as file:
    file.write(json.dumps([request["kind"], sys.argv]) + chr(10))
if request["kind"] == "delete":
    print(error_marker("InvalidRequestError", "there is no column 'nothing'"))
    sys.exit(64)
root = request["table"].removeprefix("file:").rstrip("/")
run = request["identity"]
metrics = {{"write": {{"numOutputRows": 2, "numOutputBytes": 900, "numFiles": 1}},
           "merge": {{"numOutputRows": 3, "numTargetBytesAdded": 700, "numTargetFilesAdded": 2}}}}[request["kind"]]
operation, versions = request["kind"].upper(), {{"source": 1}} if request["kind"] == "merge" else {{}}
lines = [
    {{"commitInfo": {{
        "timestamp": 9, "operation": operation, "operationMetrics": {{k: str(v) for k, v in metrics.items()}},
        "readVersion": 0, "operationParameters": {{"sourceVersions": json.dumps(versions)}}}}}},
    {{"txn": {{"appId": run["app_id"], "version": run["txn_version"], "lastUpdated": 9}}}},
    {{"add": {{"path": "a", "size": 1, "modificationTime": 9, "partitionValues": {{}}, "dataChange": True}}}},
]
with open(os.path.join(root, "_delta_log", "%020d.json" % 1), "x") as file:
    file.write(chr(10).join(map(json.dumps, lines)))
print(result_marker(OperationResult(
    table=root, operation=operation, version=1, read_version=0, committed=True, skipped=False, app_id=run["app_id"],
    txn_version=0, timestamp=9, metrics=metrics, source_versions=versions)))
"""


@pytest.fixture(scope="module")
def lineage_of_two_runs(tmp_path_factory, make_stand_in, make_table, airflow_db):
    """Run the same DAG run twice. Returns the folder of the tables, the events and the calls of `spark-submit`.

    The events are `{(event type, task): [event of the first time, event of the second time]}`. Each call is the list
    `[kind of the request, arguments]`.
    """
    folder = tmp_path_factory.mktemp("lineage")
    for name in ("orders", "customers"):
        make_table(folder / "lake" / name).create()
    calls, events = folder / "calls.jsonl", folder / "events.jsonl"
    stand_in = make_stand_in(folder)
    stand_in.set_script(JOB_SCRIPT.format(calls=str(calls)))
    settings = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(events), "append": True}),
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
    }
    output = run_dag_program(PROGRAM, folder, stand_in, airflow_db, **settings)
    assert events.exists() and calls.exists(), output
    events_by_task: dict[tuple[str, str], list[dict]] = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        events_by_task.setdefault((event["eventType"], event["job"]["name"].removeprefix("lineage.")), []).append(event)
    return folder / "lake", events_by_task, [json.loads(line) for line in calls.read_text().splitlines()]


def datasets(event, side):
    """The datasets of an event by namespace and name. `side` is "inputs" or "outputs"."""
    return {(dataset["namespace"], dataset["name"]): dataset for dataset in event[side]}


def facet(dataset, name):
    """The values of a dataset's facet, without the keys that every facet has."""
    return {key: value for key, value in dataset["facets"][name].items() if not key.startswith("_")}


def test_the_start_event_of_each_task_has_its_inputs_and_outputs(lineage_of_two_runs):
    lake, events, _ = lineage_of_two_runs
    names = {
        task: [sorted(datasets(events["START", task][0], side)) for side in ("inputs", "outputs")]
        for task in ("load", "wait", "upsert", "forget")
    }
    orders, customers = ("file", f"{lake}/orders"), ("file", f"{lake}/customers")
    assert names == {
        "load": [[("file", f"{lake}/in/2026-01-01"), ("s3://rules", "orders.yaml")], [orders]],
        "wait": [[orders], []],
        "upsert": [[orders], [customers]],
        "forget": [[], [customers]],
    }
    assert "version" not in events["START", "upsert"][0]["inputs"][0]["facets"]


def test_a_commit_is_an_output_with_version_schema_and_statistics(lineage_of_two_runs):
    _, events, _ = lineage_of_two_runs
    event = events["COMPLETE", "load"][0]
    (orders,) = event["outputs"]
    assert facet(orders, "version") == {"datasetVersion": "1"}
    assert [(field["name"], field["type"]) for field in facet(orders, "schema")["fields"]] == [("id", "bigint")]
    assert facet(orders, "storage") == {"storageLayer": "delta", "fileFormat": "parquet"}
    statistics = orders["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (2, 900, 1)
    assert event["job"]["facets"]["sql"]["query"] == "SELECT id FROM source"
    run_facet = event["run"]["facets"]["deltalite"]
    assert (run_facet["operation"], run_facet["version"], run_facet["committed"], run_facet["skipped"]) == (
        "WRITE",
        1,
        True,
        False,
    )
    assert run_facet["appId"].startswith("airflow/lineage/load/")


def test_a_delta_source_is_an_input_with_the_read_version(lineage_of_two_runs):
    lake, events, _ = lineage_of_two_runs
    for task in ("wait", "upsert"):
        (orders,) = events["COMPLETE", task][0]["inputs"]
        assert orders["name"] == f"{lake}/orders"
        assert facet(orders, "version") == {"datasetVersion": "1"}


def test_a_failed_task_has_its_output_without_a_version(lineage_of_two_runs):
    lake, events, _ = lineage_of_two_runs
    event = events["FAIL", "forget"][0]
    (customers,) = event["outputs"]
    assert customers["name"] == f"{lake}/customers"
    assert not {"version", "schema"} & set(customers["facets"]) and customers.get("outputFacets") in (None, {})
    assert "there is no column 'nothing'" in event["run"]["facets"]["errorMessage"]["message"]
    assert "deltalite" not in event["run"]["facets"]


def test_a_skipped_run_has_its_version_and_no_statistics(lineage_of_two_runs):
    _, events, calls = lineage_of_two_runs
    assert [kind for kind, _ in calls] == ["write", "merge", "delete", "delete"]
    event = events["COMPLETE", "load"][1]
    (orders,) = event["outputs"]
    assert facet(orders, "version") == {"datasetVersion": "1"}
    assert orders.get("outputFacets") in (None, {})
    run_facet = event["run"]["facets"]["deltalite"]
    assert (run_facet["committed"], run_facet["skipped"]) == (False, True)
    (source,) = events["COMPLETE", "upsert"][1]["inputs"]
    # The commit in the log names the versions of its sources.
    assert facet(source, "version") == {"datasetVersion": "1"}


def test_the_spark_application_gets_its_parent_run(lineage_of_two_runs):
    _, events, calls = lineage_of_two_runs
    (argv,) = [argv for kind, argv in calls if kind == "write"]
    assert f"spark.openlineage.parentRunId={events['START', 'load'][0]['run']['runId']}" in argv
    assert "spark.openlineage.parentJobName=lineage.load" in argv
