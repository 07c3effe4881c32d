"""The convert command: turns a folder of Parquet files into a Delta table, in place and in one commit.

The steps:

1. If the folder is a Delta table already, record only the run.
2. List the files, and parse the partition values of their folders.
3. Read the footers: schema, number of rows, statistics.
4. Check the column names and the properties.
5. List the folder again, and fail if a file was added, removed or changed after step 2.
6. Commit.

The command reads no row and changes no data file, so a failure leaves the folder unchanged.
delta-spark: ConvertToDeltaCommand.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING

from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, record_run
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.common.write_target import WriteTarget, new_target
from deltalite.commands.convert.files import ConvertedFiles, converted_files
from deltalite.commands.convert.listing import check_unchanged, listed_files
from deltalite.errors import SchemaMismatchError, TableNotFoundError
from deltalite.log.file_table import adds_of, bytes_of
from deltalite.protocol.column_mapping import MappingMode
from deltalite.protocol.feature_enabling import requested_protocol
from deltalite.protocol.file_schemas import names_that_need_mapping
from deltalite.protocol.partition_schema import parse_partition_schema
from deltalite.protocol.properties import COLUMN_MAPPING_MODE, check_new_properties
from deltalite.protocol.schema import StructType
from deltalite.requests import ConvertRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.file_actions import FileActions
from deltalite.txn.proposal import BaseState, Operation, Proposal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

OPERATION = "CONVERT"
_log = logging.getLogger(__name__)


def convert(spark: SparkSession, request: ConvertRequest) -> OperationResult:
    """Convert the folder, or return the result of an earlier attempt of the same run (`skipped`).

    If the folder is a Delta table already, commit only the run's `txn` action.

    Raises:
        SourceError: the folder has no Parquet files, belongs to another table or format, holds links, or changed during
            the conversion.
        SchemaMismatchError: the schemas of two files conflict, or a column cannot be in a table.
        InvalidRequestError: the folder names do not match the partition columns, or a property is wrong.
        DeltaLiteError: the conversion failed; the class says why. The folder is unchanged.
    """
    refuse_version(request.table)
    partition_schema = StructType(())
    if request.partition_schema is not None:
        partition_schema = parse_partition_schema(request.partition_schema)
    check_new_properties(request.properties)
    requested_protocol(request.properties)  # raises for a wrong value
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    return replan_on_conflict(
        lambda: _attempt(spark, request, store, partition_schema),
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )


def _attempt(
    spark: SparkSession, request: ConvertRequest, store: LogStore, partition_schema: StructType
) -> OperationResult:
    """Plan and commit once, and return the result."""
    try:
        base = Snapshot.load(store)
    except TableNotFoundError:
        return commit_proposal(spark, request, store, _proposal(spark, request, store, partition_schema))
    return _skip_conversion(spark, request, store, base, partition_schema)


def _skip_conversion(
    spark: SparkSession, request: ConvertRequest, store: LogStore, base: Snapshot, partition_schema: StructType
) -> OperationResult:
    """Return the result of an earlier attempt, or record only the run in a folder that is a Delta table already."""
    earlier_result = find_earlier_result(request, base)
    if earlier_result is not None:
        return earlier_result
    _log.info("Skipping the conversion: %s is a Delta table already (version %s).", store.root, base.version)
    requested_columns = [name.lower() for name in partition_schema.names]
    if requested_columns and requested_columns != [name.lower() for name in base.partition_columns]:
        _log.warning(
            "Ignoring partition_schema: the Delta table %s is partitioned by (%s).",
            store.root,
            ", ".join(base.partition_columns),
        )
    operation = _operation(request, base.partition_columns, file_count=0, size_bytes=0, row_count=0)
    return record_run(spark, request, store, base, operation)


def _proposal(spark: SparkSession, request: ConvertRequest, store: LogStore, partition_schema: StructType) -> Proposal:
    """Return the proposal of the table's first version."""
    tree = tree_of(spark, store.root)
    listing = listed_files(tree)
    files = converted_files(store, listing, partition_schema, request.properties)
    target = _target(request, files, partition_schema)
    check_unchanged(listing, tree)
    return Proposal(
        operation=_operation(
            request,
            target.partition_columns,
            file_count=files.adds.num_rows,
            size_bytes=bytes_of(files.adds),
            row_count=files.row_count,
        ),
        adds=FileActions(files.adds, partial(adds_of, data_change=True)),
        protocol=target.changed_protocol,
        metadata=target.changed_metadata,
        txn=transaction(request.identity, None, now_ms=now_ms()),
        base=BaseState(),
    )


def _target(request: ConvertRequest, files: ConvertedFiles, partition_schema: StructType) -> WriteTarget:
    """Return the write target of the new table. Raises `SchemaMismatchError`, `InvalidRequestError`."""
    _check_column_names(request, files.schema)
    target = new_target(files.schema, partition_schema.names, request.properties, now_ms=now_ms(), has_files=True)
    indexed_columns(target.table, target.metadata.configuration)  # raises if a property names a missing column
    return target


def _check_column_names(request: ConvertRequest, schema: StructType) -> None:
    """Refuse a column name that a table without column mapping cannot have."""
    if COLUMN_MAPPING_MODE.of(request.properties) != MappingMode.NONE:
        return
    names = names_that_need_mapping(schema)
    if names:
        raise SchemaMismatchError(
            f"The column '{names[0]}' has a character in its name that needs column mapping: one of ' ,;{{}}()=', a "
            "tab or a line break.",
            remedy=f"Convert with properties={{'{COLUMN_MAPPING_MODE.key}': 'name'}}.",
        )


def _operation(
    request: ConvertRequest, partitioned_by: tuple[str, ...], *, file_count: int, size_bytes: int, row_count: int
) -> Operation:
    return Operation(
        name=OPERATION,
        parameters={
            "numFiles": file_count,
            "partitionedBy": json.dumps(list(partitioned_by)),
            "collectStats": True,
            "sourceFormat": "parquet",
        },
        metrics={"numConvertedFiles": file_count, "convertedFilesSize": size_bytes, "numConvertedRows": row_count},
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )
