"""A copy is killed at file changes and run again: it loads each file once."""

from __future__ import annotations

import gzip

import pytest

from tests.faults.crash_site import CHANGES, PUTS
from tests.faults.killing import json_links, kill_at_steps
from tests.support.copying import copy_files, loaded_names, write_bytes, write_file
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/manual"


@pytest.mark.parametrize(
    "is_first", [False, pytest.param(True, marks=pytest.mark.campaign)], ids=["new files", "the first load"]
)
def test_a_copy_survives_kills_at_file_changes(spark_site, spark, tmp_path, is_first):
    """Outside the campaign, the test kills the program at a sample of the links of files of the log."""
    landing, template = tmp_path / "landing", None if is_first else tmp_path / "template"
    write_file(landing, "1.csv", "id\n1\n")
    if template is not None:
        copy_files(spark, template, landing)
    write_file(landing, "2.csv", "id\n2\n")
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "copy_new_files",
        rows_before=None if is_first else rows(template),
        rows_after=[(1,), (2,)],
        kinds=CHANGES if spark_site.is_campaign else PUTS,
        landing=str(landing),
        run=RUN,
    )
    links = [step.rpartition("/")[2][:8] for step in steps if step.startswith("os.link")]
    assert links[:3] == ["segment-", "manifest", "00000000"], "the record is complete before the commit names it"
    table = tmp_path / "not killed"
    assert loaded_names(table) == ["1.csv", "2.csv"]
    assert copy_files(spark, table, landing, run="the next run").skip_reason


@pytest.mark.campaign
def test_a_copy_with_bad_records_and_an_unreadable_file_survives_kills_at_file_changes(spark_site, spark, tmp_path):
    """The quarantine lies beside the table, so its file changes are steps too."""
    landing, template = tmp_path / "landing", tmp_path / "template"
    write_file(landing, "1.csv", "id\n1\n")
    copy_files(spark, template, landing)
    write_file(landing, "2.csv", "id\n2\nx\n")
    write_bytes(landing, "3.csv.gz", gzip.compress(b"id\n3\n")[:-9])
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "copy_with_bad_records",
        rows_before=rows(template),
        rows_after=[(1,), (2,)],
        kinds=CHANGES if spark_site.is_campaign else PUTS,
        landing=str(landing),
        run=RUN,
    )
    commits = [step for step in json_links(steps) if "/0000" in step]
    assert [" quarantine/" in step for step in commits[:2]] == [True, False], "the quarantine is committed first"
