"""Operations on real clusters: writes, changes of rows and of files, and a rejected address."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_deltalite.operators.delta import (
    DeltaCheckpointOperator,
    DeltaDeleteOperator,
    DeltaMergeOperator,
    DeltaOptimizeOperator,
    DeltaRestoreOperator,
    DeltaTableOperator,
    DeltaUpdateOperator,
    DeltaVacuumOperator,
    DeltaWriteOperator,
)
from tests.clusters.conftest import EACH_MODE

FEATURE_PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def rows(mode, name: str, *ids: int) -> dict[str, str]:
    """A source with these ids, in a file that every process of the cluster can read."""
    rows_file = mode.folder / f"{name}.csv"
    rows_file.write_text("\n".join(["id,kind", *(f"{number},{name}" for number in ids)]) + "\n")
    options = {"header": "true"}
    return {"format": "csv", "path": f"file://{rows_file}", "options": options, "schema": "id INT, kind STRING"}


@pytest.mark.sample("standalone")
@EACH_MODE
def test_a_write_runs_on_two_executors_and_a_merge_changes_its_rows(mode):
    result = mode.run(
        DeltaWriteOperator(
            **mode.parameters("load", "orders"),
            source=rows(mode, "first", *range(100)),
            query="SELECT /*+ REPARTITION(4) */ * FROM source",
            properties=FEATURE_PROPERTIES,
        )
    )
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 100)
    assert len({(end.application, end.executor) for end in mode.event_logs.task_ends()}) == 2
    result = mode.run(
        DeltaMergeOperator(
            **mode.parameters("upsert", "orders"),
            source=rows(mode, "second", 1, 2, 1000),
            on="target.id = source.id",
            when_matched=[{"update": "*"}],
            when_not_matched=[{"insert": "*"}],
        )
    )
    assert result["version"] == 1
    row_counts = {name: result["metrics"][name] for name in ("numTargetRowsUpdated", "numTargetRowsInserted")}
    assert row_counts == {"numTargetRowsUpdated": 2, "numTargetRowsInserted": 1}


@pytest.mark.campaign
@EACH_MODE
def test_a_table_with_deletion_vectors_and_a_change_feed_is_changed_and_maintained(mode):
    def run(operator_class, task_id, **parameters):
        return mode.run(operator_class(**mode.parameters(task_id, "orders"), **parameters))

    schema = "id INT, kind STRING, number BIGINT GENERATED ALWAYS AS IDENTITY"
    assert run(DeltaTableOperator, "create", schema=schema, properties=FEATURE_PROPERTIES)["version"] == 0
    query = "SELECT /*+ REPARTITION(4) */ * FROM source"
    assert run(DeltaWriteOperator, "load", source=rows(mode, "first", *range(100)), query=query)["version"] == 1
    assert run(DeltaUpdateOperator, "update", condition="id < 10", set={"kind": "'small'"})["version"] == 2
    assert run(DeltaDeleteOperator, "delete", condition="id >= 90")["metrics"]["numDeletedRows"] == 10
    changes = {"format": "delta", "path": f"{mode.lake}/orders", "changes_from_version": 3, "changes_to_version": 3}
    copy_result = mode.run(
        DeltaWriteOperator(
            **mode.parameters("changes", "changes"),
            source=changes,
            query="SELECT id, _change_type AS kind FROM source",
        )
    )
    assert copy_result["metrics"]["numOutputRows"] == 10
    assert run(DeltaOptimizeOperator, "optimize")["version"] == 4
    assert run(DeltaCheckpointOperator, "checkpoint")["operation"] == "CHECKPOINT"
    assert run(DeltaVacuumOperator, "vacuum", dry_run=True)["metrics"]["numFilesToDelete"] == 0
    assert run(DeltaRestoreOperator, "restore", version=1)["version"] == 5


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-client"], indirect=True)
def test_a_table_without_a_scheme_is_rejected_if_spark_looks_for_it_in_hdfs(mode, yarn):
    parameters = mode.parameters("load", "orders") | {"table": f"{mode.folder}/orders", "shared_folder": True}
    with pytest.raises(AirflowFailException, match=rf"InvalidTableAddressError: .*{yarn.hdfs}"):
        mode.run(DeltaWriteOperator(**parameters, source=rows(mode, "first", 1)))
