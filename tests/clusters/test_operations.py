"""Operations run on real clusters: every operation, typed errors with the driver's traceback, and one address rule."""

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

MODES = ["standalone", "yarn-client", "yarn-cluster", "untracked", "pod", "pod-client", "pod-untracked"]
# A job takes half a minute, so `make test` runs each mode in one test or another. Kubernetes is in the campaign.
EACH_MODE = pytest.mark.parametrize("mode", MODES, indirect=True)
FEATURES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def rows(mode, name: str, *ids: int) -> dict[str, str]:
    """A source with these ids, in a file that every process of the cluster can read."""
    file = mode.folder / f"{name}.csv"
    file.write_text("\n".join(["id,kind", *(f"{number},{name}" for number in ids)]) + "\n")
    return {"format": "csv", "path": f"file://{file}", "options": {"header": "true"}, "schema": "id INT, kind STRING"}


@pytest.mark.sample("standalone", "yarn-cluster")
@EACH_MODE
def test_a_write_runs_on_two_executors_and_a_merge_changes_its_rows(mode):
    write = mode.run(
        DeltaWriteOperator(
            **mode.parameters("load", "orders"),
            source=rows(mode, "first", *range(100)),
            query="SELECT /*+ REPARTITION(4) */ * FROM source",
            properties=FEATURES,
        )
    )
    assert (write["version"], write["committed"], write["metrics"]["numOutputRows"]) == (0, True, 100)
    assert len(mode.executors()) == 2
    merge = mode.run(
        DeltaMergeOperator(
            **mode.parameters("upsert", "orders"),
            source=rows(mode, "second", 1, 2, 1000),
            on="target.id = source.id",
            when_matched=[{"update": "*"}],
            when_not_matched=[{"insert": "*"}],
        )
    )
    assert merge["version"] == 1
    counted = {name: merge["metrics"][name] for name in ("numTargetRowsUpdated", "numTargetRowsInserted")}
    assert counted == {"numTargetRowsUpdated": 2, "numTargetRowsInserted": 1}


@pytest.mark.campaign
@EACH_MODE
def test_every_operation_runs(mode):
    def run(operator_class, task_id, **parameters):
        return mode.run(operator_class(**mode.parameters(task_id, "orders"), **parameters))

    schema = "id INT, kind STRING, number BIGINT GENERATED ALWAYS AS IDENTITY"
    assert run(DeltaTableOperator, "create", schema=schema, properties=FEATURES)["version"] == 0
    query = "SELECT /*+ REPARTITION(4) */ * FROM source"
    assert run(DeltaWriteOperator, "load", source=rows(mode, "first", *range(100)), query=query)["version"] == 1
    assert run(DeltaUpdateOperator, "update", condition="id < 10", set={"kind": "'small'"})["version"] == 2
    assert run(DeltaDeleteOperator, "delete", condition="id >= 90")["metrics"]["numDeletedRows"] == 10
    changes = {"format": "delta", "path": f"{mode.lake}/orders", "changes_from_version": 3, "changes_to_version": 3}
    copied = mode.run(
        DeltaWriteOperator(
            **mode.parameters("changes", "changes"),
            source=changes,
            query="SELECT id, _change_type AS kind FROM source",
        )
    )
    assert copied["metrics"]["numOutputRows"] == 10
    assert run(DeltaOptimizeOperator, "optimize")["version"] == 4
    assert run(DeltaCheckpointOperator, "checkpoint")["operation"] == "CHECKPOINT"
    assert run(DeltaVacuumOperator, "vacuum", dry_run=True)["metrics"]["numFilesToDelete"] == 0
    assert run(DeltaRestoreOperator, "restore", version=1)["version"] == 5


@pytest.mark.sample("untracked", "yarn-client")
@EACH_MODE
def test_a_permanent_error_of_the_driver_is_typed_logged_with_its_traceback_and_not_repeated(mode, capsys):
    earlier = mode.applications().keys()
    load = DeltaWriteOperator(
        **mode.parameters("load", "orders"), source=rows(mode, "first", 1), query="SELECT missing FROM source"
    )
    with pytest.raises(AirflowFailException, match=r"(?s)InvalidRequestError: .*missing"):
        mode.run(load)
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and "deltalite.errors.InvalidRequestError" in log
    assert log.count("Identified spark application id") <= 1
    submitted = mode.applications().keys() - earlier
    assert len(submitted) == (mode.name not in ("standalone", "pod-client"))
    if mode.yarn is not None:
        driver_logs = [a["amContainerLogs"] for a in mode.yarn.applications() if a["id"] in submitted]
        assert all("_01_000001/" in log for log in driver_logs)  # the first attempt


@pytest.mark.parametrize("mode", ["yarn-client"], indirect=True)
def test_a_table_without_a_scheme_is_rejected_where_spark_looks_for_it_in_hdfs(mode, yarn):
    parameters = mode.parameters("load", "orders") | {"table": f"{mode.folder}/orders", "shared_folder": True}
    with pytest.raises(AirflowFailException, match=rf"InvalidTableAddressError: .*{yarn.hdfs}"):
        mode.run(DeltaWriteOperator(**parameters, source=rows(mode, "first", 1)))
