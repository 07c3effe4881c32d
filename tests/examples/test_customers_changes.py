"""The change-feed pipeline merges every version of the source once, in order."""

from __future__ import annotations

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
        {key: row[key] for key in ("changed_at", "country", "customer")}  # `rows` sorts by these columns
        for row in rows(lake / "customers")
        if not row["deleted"]
    ]
    return sorted(expected_rows, key=repr)


def loaded_versions(result: dict) -> tuple[int | None, int]:
    """Return the version before the loaded ones, and the last loaded version."""
    return result["flows"]["source"]["after_version"], result["flows"]["source"]["to_version"]


@pytest.mark.campaign
def test_each_run_merges_the_new_versions_and_a_day_without_new_versions_starts_no_spark(lake, request):
    copy, version_before = lake / "customers_for_analysts", DeltaTable(str(lake / "customers")).version
    assert version_before > 1

    first = run(example("customers_changes"), FIRST_DAY)
    assert (first.state, loaded_versions(first.return_values["merge"])) == ("success", (None, version_before))
    assert rows(copy) == expected_copy(lake)

    assert run(example("customers_forget"), FIRST_DAY, conf={"customer": FORGOTTEN_CUSTOMER}).state == "success"
    second = run(example("customers_changes"), SECOND_DAY)
    result = second.return_values["merge"]
    assert (second.state, loaded_versions(result)) == ("success", (version_before, version_before + 1))
    assert result["metrics"]["numTargetRowsDeleted"] == 1
    assert result["metrics"]["numTargetRowsUpdated"] == 0
    assert rows(copy) == expected_copy(lake)

    spark_call_marker = request.getfixturevalue("without_spark")
    third = run(example("customers_changes"), THIRD_DAY)
    result = third.return_values["merge"]
    assert (third.state, result["skipped"]) == ("success", True)
    assert loaded_versions(result) == (version_before + 1, version_before + 1)
    assert not spark_call_marker.exists()
    assert DeltaTable(str(copy)).version == 1
