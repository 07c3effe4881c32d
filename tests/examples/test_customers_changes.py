"""The change-feed pipeline merges every version of the source once, in order."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST, SECOND, example, rows, run
from tests.examples.feeds import FORGOTTEN

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
THIRD = date(2026, 3, 3)


def without_addresses(lake: Path) -> list[dict]:
    """The expected rows of the copy."""
    expected_rows = [
        {key: row[key] for key in ("customer", "country", "changed_at")}
        for row in rows(lake / "customers")
        if not row["deleted"]
    ]
    return sorted(expected_rows, key=repr)


@pytest.mark.campaign
def test_each_run_merges_the_new_versions_and_a_day_without_new_versions_starts_no_spark(lake, request):
    copy, before = lake / "customers_for_analysts", DeltaTable(str(lake / "customers")).version
    assert before > 1

    first = run(example("customers_changes"), FIRST)
    assert (first.state, first.returned["next_range"]) == ("success", {"first": 0, "last": before})
    assert rows(copy) == without_addresses(lake)

    assert run(example("customers_forget"), FIRST, conf={"customer": FORGOTTEN}).state == "success"
    second = run(example("customers_changes"), SECOND)
    assert (second.state, second.returned["next_range"]) == ("success", {"first": before + 1, "last": before + 1})
    assert second.returned["merge"]["metrics"]["numTargetRowsDeleted"] == 1
    assert second.returned["merge"]["metrics"]["numTargetRowsUpdated"] == 0
    assert rows(copy) == without_addresses(lake)

    spark_call = request.getfixturevalue("without_spark")
    third = run(example("customers_changes"), THIRD)
    assert third.state == "success" and third.returned == dict.fromkeys(("next_range", "create", "merge"))
    assert not spark_call.exists()

    messages = [json.loads(commit["userMetadata"]).get("user_metadata") for commit in DeltaTable(str(copy)).history()]
    assert [message for message in messages if message] == [
        f"customers up to version {before + 1}",
        f"customers up to version {before}",
    ]
