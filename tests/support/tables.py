"""Tables for tests that write through Spark: one call for each command, and functions that read the table back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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

UNUSED_SOURCE = Source(format="text", path=__file__)
"""The source of requests that have a query without a source: a request must have one."""


def request(table: Path | str, query: str | None = None, *, run: str | None = None, **options: Any) -> WriteRequest:
    """The request to write the rows of `query`.

    `run` is the app id. If it is set, the options may contain `generation` and `on_rerun`.
    """
    options.setdefault("sources", {"source": UNUSED_SOURCE})
    return WriteRequest(table=str(table), query=query, **_with_identity(run, options))


def _with_identity(run: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a request with the identity of a run, or unchanged without a run.

    The function moves `generation` and `on_rerun` from the options to the identity.
    """
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
    """Write the rows of `query`; the parameters are those of `request`."""
    return write(spark, request(table, query, run=run, **options))


def delete_rows(
    spark: SparkSession, table: Path | str, condition: str | None = None, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Delete the rows that satisfy a condition, by default all."""
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
    """Update the rows that satisfy a condition, by default all; `values` has the SQL of each column's new value."""
    options = _with_identity(run, options)
    return update(spark, UpdateRequest(table=str(table), set=values, condition=condition, **options))


def optimize_table(
    spark: SparkSession, table: Path | str, *, run: str | None = None, **options: Any
) -> OperationResult:
    """Run the optimize command."""
    return optimize(spark, OptimizeRequest(table=str(table), **_with_identity(run, options)))


def values(names: str, *rows: str) -> str:
    """The SQL query for literal rows: `values("id, name", "1, 'a'", "2, 'b'")` has two rows."""
    return f"SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS rows({names})"


def without_time(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of an operation without its time, which they must have."""
    counts = dict(metrics)
    assert int(counts.pop("executionTimeMs")) >= 0
    return counts


def rows(table: Path | str, **version: Any) -> list[tuple[Any, ...]]:
    """All rows of a table as tuples, in a fixed order; `version` has the arguments of `DeltaTable`."""
    return sorted_rows(tuple(row.values()) for row in DeltaTable(str(table), **version).to_arrow().to_pylist())


def ids(table: Path | str, **version: Any) -> list[Any]:
    """The sorted values of the first column of a table; `version` has the arguments of `DeltaTable`."""
    return sorted(row[0] for row in rows(table, **version))


def delta_rs_rows(table: Path | str, version: int | None = None) -> list[tuple[Any, ...]]:
    """All rows of a version as delta-rs reads them, as tuples in the order of `rows`."""
    names = [field.name for field in DeltaTable(str(table), version=version).schema]
    dicts = delta_rs_arrow(table, version).to_pylist()
    return sorted_rows(tuple(row[name] for name in names) for row in dicts)


def delta_rs_arrow(table: Path | str, version: int | None = None) -> pa.Table:
    """All rows of a version as delta-rs reads them, as an Arrow table."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table), version=version))
    return pa.table(query.execute("SELECT * FROM t").read_all())


def sorted_rows(rows: Any) -> list[tuple[Any, ...]]:
    """The rows as tuples, sorted by their text. Python cannot compare nulls with values."""
    return sorted((tuple(row) for row in rows), key=repr)


def actions_of(table: Path | str, version: int) -> dict[str, Any]:
    """The actions in a version's commit, by kind: lists of bodies for `add`, `remove` and `cdc`, else one body."""
    actions: dict[str, Any] = {"add": [], "remove": []}
    for line in (Path(table) / "_delta_log" / f"{version:020}.json").read_text().splitlines():
        ((kind, body),) = json.loads(line).items()
        if kind in ("add", "remove", "cdc"):
            actions.setdefault(kind, []).append(body)
        else:
            assert kind not in actions, f"version {version} has two actions of the kind {kind}"
            actions[kind] = body
    return actions


def data_files(table: Path | str) -> set[str]:
    """The relative paths of all Parquet files in a table's folder, except those in the log.

    They include files that no version names.
    """
    root = Path(table)
    paths = (file.relative_to(root).as_posix() for file in root.rglob("*.parquet"))
    return {path for path in paths if not path.startswith("_delta_log/")}


def folder_content(folder: Path | str) -> dict[str, bytes | None]:
    """The bytes of each file in a folder, and None for each subfolder, by relative path.

    The result is empty if the folder does not exist.
    """
    content: dict[str, bytes | None] = {}
    for directory, _, names in os.walk(folder):
        content[os.path.relpath(directory, folder)] = None
        for name in names:
            content[os.path.relpath(os.path.join(directory, name), folder)] = Path(directory, name).read_bytes()
    return content


def write_data_file(folder: Path, file_name: str, table: pa.Table | None = None, **columns: Any) -> dict[str, Any]:
    """Write a data file with these columns; returns `path` and `size` for its `add`."""
    file = folder / file_name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns) if table is None else table, file)
    return {"path": quote(file_name), "size": file.stat().st_size}


def write_foreign_table(
    table: Path,
    schema: str,
    adds: list[dict[str, Any]],
    partition_columns: tuple[str, ...] = (),
    *,
    features: tuple[str, ...] = (),
    configuration: dict[str, str] | None = None,
) -> None:
    """Write a table of one commit without the library, as another engine might.

    Args:
        table: the folder of the table.
        schema: the schema's JSON.
        adds: fields of the `add` of each data file; `write_data_file` returns the required ones.
        partition_columns: the names of the partition columns.
        features: table features that are both reader and writer features.
        configuration: the table properties.
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
    """The JSON of a schema with these (name, type) fields; the `required` ones are not nullable."""
    json_fields = [{"name": n, "type": t, "nullable": n not in required, "metadata": {}} for n, t in fields]
    return json.dumps({"type": "struct", "fields": json_fields})


def write_numbered_file(table: Path, name: str, first: int, count: int, **columns: Any) -> dict[str, Any]:
    """Write a data file of `count` rows with ids from `first` on, in row groups of 300 rows.

    Returns `path` and `size` for its `add`.
    """
    numbered_rows = pa.table({"id": pa.array(range(first, first + count), pa.int64()), **columns})
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(numbered_rows, table / name, row_group_size=300)
    return {"path": name, "size": (table / name).stat().st_size}


def spark_rows(spark: SparkSession, table: Path | str, **options: Any) -> list[tuple[Any, ...]]:
    """All rows of a table as Spark reads them, in a fixed order; `options` are those of `delta.read`."""
    with reading_table(str(table)):
        return sorted_rows(delta.read(spark, str(table), **options).collect())


def row_addresses(spark: SparkSession, table: Path | str) -> list[tuple[str, int]]:
    """The address of each row of a table: the path of its file as in the log, and its position in the file."""
    snapshot = Snapshot.load(open_store(str(table)))
    scanned = scan_addressed(spark, snapshot, snapshot.files, file="__file", row="__row")
    paths = snapshot.files["path"].to_pylist()
    return [(paths[scanned.numbers[file]], row) for file, row in scanned.frame.select("__file", "__row").collect()]


def physical_plan(frame: DataFrame) -> str:
    """The text of a frame's physical plan."""
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan
