"""Operations on real clusters: writes, changes of rows and of files, and a rejected address."""

from __future__ import annotations

import json

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
from deltalite import DeltaTable
from tests.clusters.conftest import EACH_MODE
from tests.clusters.slow_jobs import source_of
from tests.support.clusters.table_checks import check_table
from tests.support.tables import actions_of, rows, sorted_rows

FEATURE_PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


@pytest.mark.sample("standalone")
@EACH_MODE
def test_a_write_runs_on_all_executors_and_a_merge_changes_its_rows(mode):
    result = mode.run(
        DeltaWriteOperator(
            **mode.parameters("load", "orders"),
            source=source_of(mode, "first", range(100)),
            query="SELECT /*+ REPARTITION(4) */ * FROM source",
            properties=FEATURE_PROPERTIES,
        )
    )
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 100)
    assert len({(end.application, end.executor) for end in mode.event_logs.task_ends()}) == mode.executors
    result = mode.run(
        DeltaMergeOperator(
            **mode.parameters("upsert", "orders"),
            source=source_of(mode, "second", [1, 2, 1000]),
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
    schema = "id INT, kind STRING, number BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 3)"
    load = {"source": source_of(mode, "first", range(100)), "query": "SELECT /*+ REPARTITION(4) */ * FROM source"}
    run(mode, DeltaTableOperator, "create", schema=schema, properties=FEATURE_PROPERTIES)
    run_on_all_executors(mode, DeltaWriteOperator, "load", **load)
    run_on_all_executors(mode, DeltaUpdateOperator, "update", condition="id < 10", set={"kind": "'small'"})
    run_on_all_executors(mode, DeltaDeleteOperator, "delete", condition="id >= 90")
    copy_changes(mode, version=3)
    run(mode, DeltaOptimizeOperator, "optimize")
    assert run(mode, DeltaCheckpointOperator, "checkpoint")["operation"] == "CHECKPOINT"
    assert run(mode, DeltaVacuumOperator, "vacuum", dry_run=True)["metrics"]["numFilesToDelete"] == 0
    assert run(mode, DeltaRestoreOperator, "restore", version=1)["version"] == 5
    table = mode.local_table("orders")
    check_rows_of_versions(table)
    check_soft_deletes(table, version=2, rows_count=10)
    check_soft_deletes(table, version=3, rows_count=10)
    check_optimize(table, version=4)
    check_checkpoint(table, version=4)
    check_table(mode.local_table("changes"), [(number, "delete") for number in range(90, 100)])


def run(mode, operator_class, task_id, **parameters):
    """Run a task on the table `orders`, and return its result."""
    return mode.run(operator_class(**mode.parameters(task_id, "orders"), **parameters))


def run_on_all_executors(mode, operator_class, task_id, **parameters):
    """Run a task on the table `orders`, and check that all executors of its job ran a part of it."""
    earlier_applications = {end.application for end in mode.event_logs.task_ends()}
    run(mode, operator_class, task_id, **parameters)
    ends = [end for end in mode.event_logs.task_ends() if end.application not in earlier_applications]
    assert len({end.executor for end in ends}) == mode.executors


def copy_changes(mode, version):
    """Write the ids and the change types of a version of `orders` to the table `changes`."""
    changes = {"format": "delta", "path": f"{mode.lake}/orders"}
    changes |= {"changes_from_version": version, "changes_to_version": version}
    query = "SELECT id, _change_type AS kind FROM source"
    mode.run(DeltaWriteOperator(**mode.parameters("changes", "changes"), source=changes, query=query))


def check_rows_of_versions(table):
    """Check the rows of each version. The load gives each row its identity value, and no later version changes it."""
    numbers = {row_id: number for row_id, _, number in rows(table, version=1)}
    assert sorted(numbers.values()) == list(range(5, 5 + 3 * 100, 3))
    loaded = [(row_id, "first", numbers[row_id]) for row_id in range(100)]
    updated = [(row_id, "small" if row_id < 10 else kind, number) for row_id, kind, number in loaded]
    expected_rows = {0: [], 1: loaded, 2: updated, 3: updated[:90], 4: updated[:90]}
    for version, expected in expected_rows.items():
        assert rows(table, version=version) == sorted_rows(expected), f"version {version}"
    check_table(table, loaded)  # version 5 restores version 1


def check_soft_deletes(table, *, version, rows_count):
    """Check that a version removed so many rows by deletion vectors, and kept the data files of these rows."""
    actions = actions_of(table, version)
    added_vectors = {add["path"]: add["deletionVector"] for add in actions["add"] if "deletionVector" in add}
    earlier_vectors = [remove["deletionVector"] for remove in actions["remove"] if "deletionVector" in remove]
    assert added_vectors.keys() == {remove["path"] for remove in actions["remove"]} != set()
    assert soft_deleted_rows(added_vectors.values()) - soft_deleted_rows(earlier_vectors) == rows_count


def soft_deleted_rows(vectors):
    return sum(vector["cardinality"] for vector in vectors)


def check_optimize(table, *, version):
    """Check that a version replaced all files by fewer files, which have no deletion vector."""
    earlier_paths = set(DeltaTable(str(table), version=version - 1).files()["path"].to_pylist())
    actions = actions_of(table, version)
    assert {remove["path"] for remove in actions["remove"]} == earlier_paths
    assert 1 <= len(actions["add"]) < len(earlier_paths)
    assert [add for add in actions["add"] if "deletionVector" in add] == []


def check_checkpoint(table, *, version):
    """Check that the log has a checkpoint of a version, and names it."""
    log = table / "_delta_log"
    assert [file.name for file in log.glob(f"{version:020}.checkpoint*.parquet")] != []
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == version


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-client"], indirect=True)
def test_a_table_without_a_scheme_is_rejected_if_spark_looks_for_it_in_hdfs(mode, yarn):
    parameters = mode.parameters("load", "orders") | {"table": f"{mode.folder}/orders", "shared_folder": True}
    with pytest.raises(AirflowFailException, match=rf"InvalidTableAddressError: .*{yarn.hdfs}"):
        mode.run(DeltaWriteOperator(**parameters, source=source_of(mode, "first", [1])))
