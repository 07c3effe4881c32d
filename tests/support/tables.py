"""Tables for tests that write through Spark: one call for each command, and functions that read the table back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.delete import delete
from deltalite.commands.optimize import optimize
from deltalite.commands.update import update
from deltalite.commands.write import write
from deltalite.requests import DeleteRequest, OnRerun, OptimizeRequest, RunIdentity, Source, UpdateRequest, WriteRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.runtime.errors import reading_table
from deltalite.spark.scan.frame import scan_addressed
from deltalite.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.results import OperationResult

HERE = Source(format="text", path=__file__)
"""A source for queries that need no source; a request requires one."""


def request(table: Path | str, query: str | None = None, *, run: str | None = None, **options: Any) -> WriteRequest:
    """The request to write the rows of `query`. `run` is the app id; `generation` and `on_rerun` belong to it."""
    options.setdefault("sources", {"source": HERE})
    return WriteRequest(table=str(table), query=query, **_with_identity(run, options))


def _with_identity(run: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a request, with `generation` and `on_rerun` moved into the run's identity."""
    if run is None:
        return options
    identity = RunIdentity(
        app_id=run,
        txn_version=options.pop("generation", 0),
        on_rerun=OnRerun(options.pop("on_rerun", "skip")),
        details={"dag_id": "dag", "try_number": 1},
    )
    return {**options, "identity": identity}


def write_rows(
    spark: SparkSession, table: Path | str, query: str | None = None, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Run the write command for `request`."""
    return write(spark, request(table, query, run=run, **options))


def delete_rows(
    spark: SparkSession, table: Path | str, condition: str | None = None, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Run the delete command."""
    return delete(spark, DeleteRequest(table=str(table), condition=condition, **_with_identity(run, options)))


def update_rows(
    spark: SparkSession,
    table: Path | str,
    values: dict[str, str],
    condition: str | None = None,
    *,
    run: str | None = None,
    **options: Any,
) -> OperationResult:
    """Run the update command; `values` has the SQL for each column."""
    options = _with_identity(run, options)
    return update(spark, UpdateRequest(table=str(table), set=values, condition=condition, **options))


def optimize_table(
    spark: SparkSession, table: Path | str, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Run the optimize command."""
    return optimize(spark, OptimizeRequest(table=str(table), **_with_identity(run, options)))


def values(names: str, *rows: str) -> str:
    """A query for literal rows: `values("id, name", "1, 'a'")`."""
    return f"SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS rows({names})"


def rows(table: Path | str, **at: Any) -> list[tuple[Any, ...]]:
    """All rows of a table as tuples, in a fixed order; `at` names the version."""
    return ordered(tuple(row.values()) for row in DeltaTable(str(table), **at).to_arrow().to_pylist())


def delta_rs_rows(table: Path | str, version: int | None = None) -> list[tuple[Any, ...]]:
    """All rows of a version as delta-rs reads them, as tuples in the order of `rows`."""
    names = [field.name for field in DeltaTable(str(table), version=version).schema]
    dicts = delta_rs_arrow(table, version).to_pylist()
    return ordered(tuple(row[name] for name in names) for row in dicts)


def delta_rs_arrow(table: Path | str, version: int | None = None) -> pa.Table:
    """All rows of a version as delta-rs reads them."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table), version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def ordered(unordered: Any) -> list[tuple[Any, ...]]:
    """The rows sorted by their text, so that rows with nulls sort too."""
    return sorted((tuple(row) for row in unordered), key=repr)


def commit(table: Path | str, version: int) -> dict[str, Any]:
    """The actions of a version by kind: lists for `add`, `remove` and `cdc`, one body for every other kind."""
    actions: dict[str, Any] = {"add": [], "remove": []}
    for line in (Path(table) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        ((kind, body),) = json.loads(line).items()
        if kind in ("add", "remove", "cdc"):
            actions.setdefault(kind, []).append(body)
        else:
            assert kind not in actions, f"two {kind} in version {version}"
            actions[kind] = body
    return actions


def data_files(table: Path | str) -> set[str]:
    """The names of all Parquet files below the table outside the log, live or not."""
    root = Path(table)
    files = (file.relative_to(root).as_posix() for file in root.rglob("*.parquet"))
    return {name for name in files if not name.startswith("_delta_log/")}


def everything(folder: Path | str) -> dict[str, bytes | None]:
    """The content of each file below a folder, and None for each directory; empty if the folder does not exist."""
    contents: dict[str, bytes | None] = {}
    for directory, _, names in os.walk(folder):
        contents[os.path.relpath(directory, folder)] = None
        for name in names:
            contents[os.path.relpath(os.path.join(directory, name), folder)] = Path(directory, name).read_bytes()
    return contents


def data_file(folder: Path, file_name: str, table: pa.Table | None = None, **columns: Any) -> dict[str, Any]:
    """Write a data file; returns `path` and `size` for its `add`."""
    file = folder / file_name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns) if table is None else table, file)
    return {"path": quote(file_name), "size": file.stat().st_size}


def hand_made(
    table: Path,
    schema: str,
    adds: list[dict[str, Any]],
    partition_columns: tuple[str, ...] = (),
    *,
    features: tuple[str, ...] = (),
    configuration: dict[str, str] | None = None,
) -> None:
    """Write a table of one commit as another engine might.

    `schema` is the schema's JSON; `features` are table features that readers and writers must know.
    """
    metadata = {
        "id": "hand-made",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": list(partition_columns),
        "configuration": configuration or {},
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        names = list(features)
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}
    actions: list[dict[str, Any]] = [{"protocol": protocol}]
    actions += [{"metaData": metadata}]
    actions += [{"add": {"modificationTime": 0, "dataChange": True, "partitionValues": {}, **add}} for add in adds]
    log = table / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))


def schema_json(*fields: tuple[str, Any], required: tuple[str, ...] = ()) -> str:
    """A schema's JSON from names and types."""
    described = [{"name": n, "type": t, "nullable": n not in required, "metadata": {}} for n, t in fields]
    return json.dumps({"type": "struct", "fields": described})


def numbered(table: Path, name: str, first: int, count: int, **columns: Any) -> dict[str, Any]:
    """A data file of `count` rows with consecutive ids, in several row groups, as `data_file` gives it."""
    values = pa.table({"id": pa.array(range(first, first + count), pa.int64()), **columns})
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(values, table / name, row_group_size=300)
    return {"path": name, "size": (table / name).stat().st_size}


def spark_rows(spark: SparkSession, table: Path | str, **at: Any) -> list[tuple[Any, ...]]:
    """All rows of a table as Spark reads them, in a fixed order."""
    with reading_table(str(table)):
        return ordered(delta.read(spark, str(table), **at).collect())


def addresses(spark: SparkSession, table: Path | str) -> list[tuple[str, int]]:
    """The address of each row of a table: its file as the log spells it, and its position in the file."""
    snapshot = Snapshot.load(open_store(str(table)))
    scanned = scan_addressed(spark, snapshot, snapshot.files, file="__file", row="__row")
    paths = snapshot.files["path"].to_pylist()
    return [(paths[scanned.numbers[file]], row) for file, row in scanned.frame.select("__file", "__row").collect()]


def plan_of(frame: DataFrame) -> str:
    """The physical plan of a frame."""
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan
