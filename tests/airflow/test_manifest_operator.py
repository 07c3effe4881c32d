"""DeltaGenerateManifestOperator: the request for the job, and the result after a job that printed none."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.operators.delta import DeltaGenerateManifestOperator
from deltalite.requests import GenerateManifestRequest
from tests.support.stand_in_jobs import COPY_REQUEST

PRINT_RESULT = """
from deltalite.markers import result_marker
from deltalite.results import manifest_result
print(result_marker(manifest_result("/t", 4, metrics={"numManifests": 2})))
"""


def operator(table, **parameters):
    return DeltaGenerateManifestOperator(task_id="manifests", table=str(table), **parameters)


def test_the_job_gets_its_request_and_the_task_its_result(table, spark_submit, context, tmp_path):
    table.create()
    request_copy = tmp_path / "request.json"
    spark_submit.set_script(COPY_REQUEST.format(copy=str(request_copy)) + PRINT_RESULT)
    result = operator(table).execute(context)
    assert (result["operation"], result["version"], result["committed"]) == ("GENERATE", 4, False)
    assert result["metrics"] == {"numManifests": 2}
    assert GenerateManifestRequest.from_json(request_copy.read_text()) == GenerateManifestRequest(table=str(table))
    assert Path(spark_submit.argv[-2]).name == "generate_manifest.py"


def test_the_result_of_a_successful_job_that_printed_none_has_the_newest_version(table, spark_submit, context):
    table.create()
    table.commit(1, table.add())
    spark_submit.set_script("")
    result = operator(table).execute(context)
    assert (result["operation"], result["version"], result["skipped"]) == ("GENERATE", 1, False)


def test_a_failed_job_has_no_result(table, spark_submit, context):
    table.create()
    spark_submit.set_script("sys.exit(137)")
    with pytest.raises(AirflowException):
        operator(table).execute(context)
