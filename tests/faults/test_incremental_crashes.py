"""An incremental append or merge is killed at file changes and run again: it loads each version of its source once."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CHANGES, PUTS
from tests.faults.killing import json_links, kill_at_steps
from tests.support.flows import append_new, merge_changes, offsets
from tests.support.properties import FEED
from tests.support.tables import delete_rows, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/manual"


@pytest.mark.parametrize(
    "is_first", [False, pytest.param(True, marks=pytest.mark.campaign)], ids=["new versions", "the snapshot"]
)
def test_an_incremental_append_survives_kills_at_file_changes(spark_site, spark, tmp_path, is_first):
    """Outside the campaign, the test kills the program at a sample of the links of files of the log."""
    source, template = tmp_path / "source", None if is_first else tmp_path / "template"
    write_rows(spark, source, values("id", "1", "2"))
    if template is not None:
        append_new(spark, template, source, properties={"delta.checkpointInterval": "1"})
    for number in (3, 4):
        write_rows(spark, source, values("id", str(number)))
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "append_new",
        rows_before=None if is_first else rows(template),
        rows_after=rows(source),
        kinds=CHANGES if spark_site.is_campaign else PUTS,
        source=str(source),
        run=RUN,
    )
    assert len(json_links(steps)) == 1
    table = tmp_path / "not killed"
    assert offsets(table) == {"flow": 2}
    assert append_new(spark, table, source, run="the next run").skip_reason
    assert rows(table) == rows(source)


@pytest.mark.campaign
@pytest.mark.parametrize("is_first", [False, True], ids=["new changes", "the snapshot"])
def test_an_incremental_merge_survives_kills_at_file_changes(spark_site, spark, tmp_path, is_first):
    source, template = tmp_path / "source", None if is_first else tmp_path / "template"
    write_rows(spark, source, values("id, name", "1, 'a'", "2, 'b'", "3, 'c'"), properties=FEED)
    if template is not None:
        merge_changes(spark, template, source, properties={"delta.checkpointInterval": "1"})
    update_rows(spark, source, {"name": "'B'"}, "id = 2")
    delete_rows(spark, source, "id = 1")
    write_rows(spark, source, values("id, name", "4, 'd'"))
    kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "merge_new",
        rows_before=None if is_first else rows(template),
        rows_after=rows(source),
        kinds=CHANGES,
        source=str(source),
        run=RUN,
    )
    table = tmp_path / "not killed"
    assert offsets(table) == {"flow": 3}
    assert merge_changes(spark, table, source, run="the next run").skip_reason
    assert rows(table) == rows(source)
