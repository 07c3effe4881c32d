"""The programs of the crash trials. Each takes a session (None without Spark), a table and its arguments.

`write_ids` is a minimal task without Spark: it returns if its run has committed, and otherwise writes a file, commits,
and does the post-commit work. The others run the commands of the library. Add a function here for a new command.
"""

from __future__ import annotations

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite import DeltaTable
from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.convert import convert as convert_command
from deltalite.commands.maintain import maintain as maintain_command
from deltalite.commands.restore import restore as restore_command
from deltalite.commands.vacuum import vacuum as vacuum_command
from deltalite.commands.write import write as write_command
from deltalite.errors import TableNotFoundError
from deltalite.log.file_table import removes_of
from deltalite.protocol.actions import AddFile
from deltalite.protocol.feature_enabling import protocol_for
from deltalite.requests import ConvertRequest, MaintainRequest, RestoreRequest, RunIdentity, VacuumRequest
from deltalite.requests.audits import audits_of
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import Committed, commit
from deltalite.txn.find_run import earlier_result
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.post_commit import after_commit
from tests.support.copying import copy_files
from tests.support.flows import append_new as append_new_rows
from tests.support.flows import merge_changes
from tests.support.merging import merge_into
from tests.support.scd import apply_rows
from tests.support.tables import delete_rows, optimize_table, request, update_rows
from tests.unit.builders import metadata, struct


def write_ids(_spark, table, *, run, ids, replaces=False, properties=None, identity=None):
    """Append the rows `ids`, or replace all rows by them. The run has the app id `run`, or is `identity`."""
    identity = identity or RunIdentity(app_id=run)
    store = LocalLogStore(table)
    try:
        base = Snapshot.load(store)
    except TableNotFoundError:
        base = None
    if base is not None and earlier_result(base, store.root, identity) is not None:
        return
    table_metadata = metadata(properties, struct(id="long"))
    removes = ()
    if base is not None and replaces:
        removes = tuple(removes_of(base.files, deletion_timestamp_ms=now_ms(), data_change=True))
    proposal = Proposal(
        base=BaseState.of(base),
        operation=Operation(name="WRITE", user_metadata=user_metadata(identity, None)),
        protocol=None if base else protocol_for(table_metadata),
        metadata=None if base else table_metadata,
        adds=(data_file(store, ids),),
        removes=removes,
        reads=ReadSet(whole_table=replaces),
        txn=transaction(identity, base, now_ms=now_ms()),
    )
    outcome = commit(store, proposal)
    if isinstance(outcome, Committed):
        after_commit(store, outcome.version)


def data_file(store, ids):
    """Write a file of these rows to the table's folder, and return its `add`."""
    sink, name = pa.BufferOutputStream(), f"{uuid.uuid4()}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
    content = sink.getvalue().to_pybytes()
    store.write(name, content)
    stats = {"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
    return AddFile(
        path=name, partition_values={}, size_bytes=len(content), modification_time_ms=now_ms(), data_change=True,
        stats=json.dumps(stats),
    )  # fmt: skip


def checkpoint(_spark, table):
    """Write a checkpoint of the newest version."""
    write_checkpoint(Snapshot.load(LocalLogStore(table)), now_ms=now_ms())


def vacuum(_spark, table, *, run, mode, hours):
    """Run the vacuum command, which needs no session on a local disk."""
    vacuum_command(None, VacuumRequest(
        table=table, mode=mode, retention_hours=hours, identity=RunIdentity(app_id=run),
        confirm_short_retention=None if hours is None else table.rpartition("/")[2],
    ))  # fmt: skip


def restore(_spark, table, *, run, version):
    """Run the restore command, which needs no session on a local disk."""
    restore_command(None, RestoreRequest(table=table, version=version, identity=RunIdentity(app_id=run)))


def convert(_spark, table, *, run, partition_schema):
    """Run the convert command, which needs no session on a local disk."""
    identity = RunIdentity(app_id=run)
    convert_command(None, ConvertRequest(table=table, partition_schema=partition_schema, identity=identity))


def write(spark, table, *, query, run, audits=(), **options):
    """Run the write command. The `audits` are dictionaries."""
    write_command(spark, request(table, query, run=run, audits=audits_of(audits), **options))


def append_new(spark, table, *, source, run):
    """Append what is new in an incremental source."""
    append_new_rows(spark, table, source, run=run)


def merge_new(spark, table, *, source, run):
    """Merge the new changes of an incremental source."""
    merge_changes(spark, table, source, run=run)


def copy_new_files(spark, table, *, landing, run):
    """Load the new files of a folder of CSV files."""
    copy_files(spark, table, landing, run=run)


def copy_with_bad_records(spark, table, *, landing, run):
    """Load the new files of a folder, with a quarantine beside the table.

    The quarantine must then have the bad record and the unreadable file once.
    """
    quarantine = f"{table} quarantine"
    copy_files(spark, table, landing, run=run, quarantine=quarantine)
    bad_rows = [(row["record"] or "no record", row["run"]) for row in DeltaTable(quarantine).to_arrow().to_pylist()]
    assert sorted(bad_rows) == [("no record", run), ("x", run)], bad_rows


def write_with_rejected_rows(spark, table, *, query, run):
    """Write the rows of a query except the row with x = 0. The quarantine beside the table must then have it once."""
    quarantine = f"{table} quarantine"
    write(spark, table, query=query, run=run, audits=ZEROS, quarantine=quarantine)
    check_zeros(quarantine, run)


def merge_with_rejected_rows(spark, table, *, query, run, on, **clauses):
    """Merge the rows of a query, and check the quarantine as `write_with_rejected_rows` does."""
    quarantine = f"{table} quarantine"
    merge(spark, table, query=query, on=on, run=run, audits=audits_of(ZEROS), quarantine=quarantine, **clauses)
    check_zeros(quarantine, run)


def scd_with_rejected_rows(spark, table, *, query, run, **options):
    """Apply the rows of a query to a history, and check the quarantine as `write_with_rejected_rows` does."""
    quarantine = f"{table} quarantine"
    scd(spark, table, query=query, run=run, audits=ZEROS, quarantine=quarantine, **options)
    check_zeros(quarantine, run)


ZEROS = ({"name": "zero", "rows": "x = 0", "level": "quarantine"},)


def check_zeros(quarantine, run):
    """Assert that a quarantine has one row, with x = 0, of the run."""
    records = [(row["record"], row["run"]) for row in DeltaTable(quarantine).to_arrow().to_pylist()]
    assert records == [('{"x":0}', run)], records


def delete(spark, table, *, condition, run):
    """Run the delete command."""
    delete_rows(spark, table, condition, run=run)


def update(spark, table, *, values, condition, run):
    """Run the update command."""
    update_rows(spark, table, values, condition, run=run)


def optimize(spark, table, *, run, **options):
    """Run the optimize command."""
    optimize_table(spark, table, run=run, **options)


def merge(spark, table, *, query, on, run, **clauses):
    """Run the merge command."""
    merge_into(spark, table, query, on, run=run, **clauses)


def scd(spark, table, *, query, run, audits=(), **options):
    """Run the SCD command. The `audits` are dictionaries."""
    apply_rows(spark, table, query, run=run, audits=audits_of(audits), **options)


def maintain(spark, table, *, run, **thresholds):
    """Run the maintenance command on one table."""
    request_of_table = MaintainRequest(tables=(table,), identity=RunIdentity(app_id=run), **thresholds)
    maintain_command(spark, request_of_table)
