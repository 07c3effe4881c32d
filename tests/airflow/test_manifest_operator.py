"""DeltaGenerateManifestOperator: the request for the job, and the result of a job that returned none."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.operators.delta import DeltaGenerateManifestOperator
from deltalite.requests import GenerateManifestRequest

KEEPS_ITS_REQUEST = "import shutil; shutil.copy(sys.argv[-1], {kept!r})\n"
SAYS_A_RESULT = """
from deltalite.results import manifest_result, result_marker
print(result_marker(manifest_result("/t", 4, metrics={"numManifests": 2})))
"""


def operator(table, **parameters):
    return DeltaGenerateManifestOperator(task_id="manifests", table=str(table), **parameters)


def test_the_job_gets_its_request_and_the_task_its_result(table, spark_submit, context, tmp_path):
    table.create()
    kept = tmp_path / "kept"
    spark_submit.does(KEEPS_ITS_REQUEST.format(kept=str(kept)) + SAYS_A_RESULT)
    returned = operator(table).execute(context)
    assert (returned["operation"], returned["version"], returned["committed"]) == ("GENERATE", 4, False)
    assert returned["metrics"] == {"numManifests": 2}
    assert GenerateManifestRequest.from_json(kept.read_text()) == GenerateManifestRequest(table=str(table))
    assert Path(spark_submit.argv[-2]).name == "generate_manifest.py"


def test_a_successful_job_without_a_result_has_written_the_version_before_the_job(table, spark_submit, context):
    table.create()
    table.commit(1, table.add())
    spark_submit.does("")
    returned = operator(table).execute(context)
    assert (returned["operation"], returned["version"], returned["skipped"]) == ("GENERATE", 1, False)


def test_a_failed_job_has_no_result(table, spark_submit, context):
    table.create()
    spark_submit.does("sys.exit(137)")
    with pytest.raises(AirflowException):
        operator(table).execute(context)
