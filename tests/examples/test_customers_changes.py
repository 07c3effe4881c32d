"""The change-feed pipeline merges every version of the source once, in order."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run
from tests.examples.feeds import FORGOTTEN_CUSTOMER

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
THIRD_DAY = date(2026, 3, 3)


def expected_copy(lake: Path) -> list[dict]:
    """Return the expected rows of the copy: the customers that are not deleted, without email addresses."""
    expected_rows = [
        {key: row[key] for key in ("customer", "country", "changed_at")}
        for row in rows(lake / "customers")
        if not row["deleted"]
    ]
    return sorted(expected_rows, key=repr)


@pytest.mark.campaign
def test_each_run_merges_the_new_versions_and_a_day_without_new_versions_starts_no_spark(lake, request):
    copy, version_before = lake / "customers_for_analysts", DeltaTable(str(lake / "customers")).version
    assert version_before > 1

    first = run(example("customers_changes"), FIRST_DAY)
    assert (first.state, first.return_values["next_range"]) == ("success", {"first": 0, "last": version_before})
    assert rows(copy) == expected_copy(lake)

    assert run(example("customers_forget"), FIRST_DAY, conf={"customer": FORGOTTEN_CUSTOMER}).state == "success"
    second = run(example("customers_changes"), SECOND_DAY)
    assert (second.state, second.return_values["next_range"]) == (
        "success",
        {"first": version_before + 1, "last": version_before + 1},
    )
    assert second.return_values["merge"]["metrics"]["numTargetRowsDeleted"] == 1
    assert second.return_values["merge"]["metrics"]["numTargetRowsUpdated"] == 0
    assert rows(copy) == expected_copy(lake)

    spark_call = request.getfixturevalue("without_spark")
    third = run(example("customers_changes"), THIRD_DAY)
    assert third.state == "success" and third.return_values == dict.fromkeys(("next_range", "create", "merge"))
    assert not spark_call.exists()

    messages = [json.loads(commit["userMetadata"]).get("user_metadata") for commit in DeltaTable(str(copy)).history()]
    assert [message for message in messages if message] == [
        f"customers up to version {version_before + 1}",
        f"customers up to version {version_before}",
    ]
