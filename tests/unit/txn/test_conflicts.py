"""The conflict rules decide each pair of a current transaction and a winning commit, at each isolation level."""

from __future__ import annotations

import dataclasses
import json

import pytest

from deltalite.columnar.predicates.predicate import And, Comparison, Operator
from deltalite.columnar.skipping.files import FileTest
from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalite.protocol.actions import Protocol
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import schema_to_json
from deltalite.txn.isolation import IsolationLevel
from deltalite.txn.proposal import Proposal, ReadSet
from deltalite.txn.winners import NoConflict, Winner, judge, read_winner
from tests.unit.builders import PROTOCOL, SCHEMA, add, commit_info, metadata, proposal, remove, struct, txn, vector

LEVELS = ("Serializable", "WriteSerializable", "SnapshotIsolation")


class AtSnapshot(Proposal):
    """A proposal at snapshot isolation. No table requires this level, but a commit may use it."""

    @property
    def isolation(self):
        return IsolationLevel.SNAPSHOT


TABLE_METADATA = metadata(partition_columns=("day",))
NEWER_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=3)


def below_ten():
    """A row test for the rows of day a with an id below 10."""
    schema = TableSchema(logical=SCHEMA, partition_columns=("day",))
    is_day_a = Comparison(column=("day",), operator=Operator.EQ, literal="a")
    is_below_ten = Comparison(column=("id",), operator=Operator.LT, literal=10)
    return (FileTest(And((is_day_a, is_below_ten)), schema),)


def file(path, day="a", low=0, **changes):
    """An `add` of a file of one day, with statistics that bound its ids by `low` and `low + 5`."""
    stats = {"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": low + 5}, "nullCount": {"id": 0}}
    return add(path, partition_values={"day": day}, stats=json.dumps(stats), **changes)


READ_BELOW_TEN = ReadSet(keys=frozenset({"f1"}), row_tests=below_ten())
READ_TABLE = ReadSet(whole_table=True)
NO_DATA_CHANGE = {"data_change": False}
OPTIMIZE_INFO = commit_info(operation="OPTIMIZE")
CURRENT_TRANSACTIONS = {
    "append": ([file("n")], None),
    "append that read all": ([file("n")], READ_TABLE),
    "replace": ([remove("f1"), file("n")], READ_BELOW_TEN),
    "overwrite": ([remove("f1"), remove("f2"), file("n")], READ_TABLE),
    "compaction": ([remove("f1", **NO_DATA_CHANGE), file("n", **NO_DATA_CHANGE)], READ_BELOW_TEN),
    "compaction with txn": ([remove("f1", **NO_DATA_CHANGE), file("n", **NO_DATA_CHANGE), txn("run")], READ_BELOW_TEN),
    "rerun with replace": ([remove("f1"), file("n")], ReadSet(keys=frozenset({"f1"}))),
    "properties": ([metadata({"k": "v"}, partition_columns=("day",))], None),
    "replace + metadata": ([remove("f1"), file("n"), metadata({"k": "v"}, partition_columns=("day",))], READ_BELOW_TEN),
    "upgrade": ([NEWER_PROTOCOL], None),
    "transaction only": ([txn("run")], None),
}  # fmt: skip
BLIND_WRITE = commit_info(operation="WRITE", isBlindAppend=True)
NOT_BLIND_MERGE = commit_info(operation="MERGE", isBlindAppend=False)
WINNERS = {
    "append": [BLIND_WRITE, file("w")],
    "append elsewhere": [BLIND_WRITE, file("w", day="b")],
    "append above": [BLIND_WRITE, file("w", low=10)],
    "append without commitInfo": [file("w")],
    "insert": [NOT_BLIND_MERGE, file("w")],
    "insert elsewhere": [NOT_BLIND_MERGE, file("w", day="b")],
    "delete of f1": [NOT_BLIND_MERGE, remove("f1")],
    "delete": [NOT_BLIND_MERGE, remove("f9")],
    "update of f1": [NOT_BLIND_MERGE, remove("f1"), file("w")],
    "update, another vector": [NOT_BLIND_MERGE, remove("f1", deletion_vector=vector("x")), file("f1", day="b")],
    "compaction of f1": [OPTIMIZE_INFO, remove("f1", **NO_DATA_CHANGE), file("w", **NO_DATA_CHANGE)],
    "compaction": [OPTIMIZE_INFO, remove("f9", **NO_DATA_CHANGE), file("w", **NO_DATA_CHANGE)],
    "another run": [BLIND_WRITE, txn("another")],
    "a harmless property": [metadata({"delta.logRetentionDuration": "interval 1 day", "mine": "x"},
                                     partition_columns=("day",), name="orders")],
    "a property that restricts writes": [metadata({"delta.appendOnly": "true"}, partition_columns=("day",))],
    "another schema": [metadata(schema=struct(id="long", day="string", x="long"), partition_columns=("day",))],
    "a newer protocol": [NEWER_PROTOCOL],
    "a protocol with an unknown feature": [Protocol(min_reader_version=1, min_writer_version=7,
                                               writer_features=("appendOnly", "invariants", "fromTheFuture"))],
}  # fmt: skip
ERRORS = {
    "A": ConcurrentAppendException, "R": ConcurrentDeleteReadException, "D": ConcurrentDeleteDeleteException,
    "M": MetadataChangedException, "P": ProtocolChangedException, ".": None,
}  # fmt: skip
# Each column is one of WINNERS, in their order. A cell has one letter for all isolation levels, or one for each level.
MATRIX = """
append               .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   .   P
append that read all A.. A.. A.. AA. AA. AA. R   R   AAR AAR .   .   .   .   M   M   .   P
replace              A.. .   .   AA. AA. .   D   .   AAD .   D   .   .   .   M   M   .   P
overwrite            A.. A.. A.. AA. AA. AA. D   R   AAD AAR D   .   .   .   M   M   .   P
compaction           .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
compaction with txn  .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
rerun with replace   .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
properties           .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   M   .   P
replace + metadata   A   .   .   A   A   .   D   .   A   .   D   .   .   M   M   M   .   P
upgrade              .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   P   P
transaction only     .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   .   P
"""


def cells():
    for line in MATRIX.strip().splitlines():
        name, letters = line[:21].strip(), line[21:].split()
        assert len(letters) == len(WINNERS), name
        for winner, cell in zip(WINNERS, letters, strict=True):
            for level, letter in zip(LEVELS, cell if len(cell) > 1 else cell * len(LEVELS), strict=True):
                yield pytest.param(name, winner, level, ERRORS[letter], id=f"{name} | {winner} | {level}")


def level_properties(level):
    """The table properties that request an isolation level."""
    return {} if level == "SnapshotIsolation" else {"delta.isolationLevel": level}


def proposal_named(name, level="Serializable"):
    actions, reads = CURRENT_TRANSACTIONS[name]
    base = (PROTOCOL, dataclasses.replace(TABLE_METADATA, configuration=level_properties(level)))
    current = proposal(4, *actions, reads=reads, base=base, name="WRITE")
    if level != "SnapshotIsolation":
        return current
    return AtSnapshot(**{f.name: getattr(current, f.name) for f in dataclasses.fields(current)})


def judgement_of(transaction_name, winner_name, level):
    actions = [
        dataclasses.replace(a, configuration={**level_properties(level), **a.configuration})
        if a.action == "metaData"
        else a
        for a in WINNERS[winner_name]
    ]
    return judge(proposal_named(transaction_name, level), Winner(version=5, actions=actions), "mine")


@pytest.mark.parametrize(("current", "winner", "level", "error"), list(cells()))
def test_a_winning_commit_conflicts_as_the_matrix_says(current, winner, level, error):
    verdict = judgement_of(current, winner, level)
    if error is None:
        assert isinstance(verdict, NoConflict)
    else:
        assert type(verdict) is error and "version 5" in verdict.problem and verdict.retryable and verdict.remedy


def test_the_matrix_has_every_pair_at_every_isolation_level():
    assert len(list(cells())) == len(CURRENT_TRANSACTIONS) * len(WINNERS) * len(LEVELS)


def test_the_error_names_the_change_of_the_winning_commit():
    descriptions = {
        "a property that restricts writes": "the property delta.appendOnly",
        "another schema": "its schema",
        "a protocol with an unknown feature": "fromTheFuture",
    }
    for winner, description in descriptions.items():
        assert description in judgement_of("append", winner, "Serializable").problem
    assert "day=a" in judgement_of("replace", "append", "Serializable").problem
    assert "the file f1" in judgement_of("replace", "compaction of f1", "Serializable").problem


def test_the_isolation_level_is_lowered_only_for_commits_that_keep_rows():
    lowered = {name for name in CURRENT_TRANSACTIONS if proposal_named(name).isolation.value == "SnapshotIsolation"}
    assert lowered == {"compaction", "compaction with txn"}


def test_the_read_set_follows_rows_that_a_winning_commit_moved():
    """The transaction read the rows in f1. The second winning commit removes them from w."""
    current = proposal(4, file("n"), reads=ReadSet(keys=frozenset({"f1"})), base=(PROTOCOL, TABLE_METADATA))
    first_judgement = judge(current, Winner(version=5, actions=WINNERS["compaction of f1"]), "mine")
    assert isinstance(first_judgement, NoConflict) and first_judgement.reads.keys == {"f1", "w"}
    second_judgement = judge(
        dataclasses.replace(current, reads=first_judgement.reads),
        Winner(version=6, actions=[NOT_BLIND_MERGE, remove("w")]),
        "mine",
    )
    assert isinstance(second_judgement, ConcurrentDeleteReadException)


def schema_with_metadata(key):
    """The schema with metadata on its first column."""
    return schema_to_json(SCHEMA).replace('"metadata":{}', f'"metadata":{{"{key}":"x"}}', 1)


@pytest.mark.parametrize(
    ("change", "is_compatible"),
    [
        ({"description": "All orders."}, True),
        ({"schema_string": schema_with_metadata("comment")}, True),
        ({"schema_string": schema_with_metadata("delta.identity.highWaterMark")}, True),
        ({"schema_string": schema_with_metadata("delta.identity.step")}, False),
        ({"schema_string": schema_with_metadata("delta.columnMapping.physicalName")}, False),
        ({"schema_string": schema_with_metadata("delta.invariants")}, False),
        ({"schema_string": "{"}, False),
        ({"id": "another"}, False),
        ({"partition_columns": ()}, False),
        ({"configuration": {"delta.autoOptimize.optimizeWrite": "true"}}, True),
        ({"configuration": {"delta.enableInCommitTimestamps": "true"}}, True),
        ({"configuration": {"delta.constraints.positive": "id > 0"}}, False),
        ({"configuration": {"delta.enableChangeDataFeed": "true"}}, False),
        ({"configuration": {"delta.isolationLevel": "WriteSerializable"}}, False),
        ({"configuration": {"delta.something.new": "1"}}, False),
        ({"configuration": {"DELTA.constraints.positive": "id > 0"}}, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_metadata_change_on_which_no_row_depends_is_compatible(change, is_compatible):
    current = proposal(4, file("n"), base=(PROTOCOL, TABLE_METADATA))
    judgement = judge(current, Winner(version=5, actions=[dataclasses.replace(TABLE_METADATA, **change)]), "mine")
    assert isinstance(judgement, NoConflict if is_compatible else MetadataChangedException)


def test_a_protocol_that_drops_a_feature_is_not_compatible():
    older = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invariants",))
    judgement = judge(
        proposal(4, file("n"), base=(PROTOCOL, TABLE_METADATA)), Winner(version=5, actions=[older]), "mine"
    )
    assert isinstance(judgement, ProtocolChangedException) and "appendOnly" in judgement.problem


@pytest.mark.parametrize(
    "older",
    [
        Protocol(min_reader_version=1, min_writer_version=1),
        Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invariants",)),
    ],
)
def test_a_protocol_with_a_newly_active_property_is_not_compatible(older):
    with_property = dataclasses.replace(TABLE_METADATA, configuration={"delta.appendOnly": "true"})
    for base, is_compatible in (((older, with_property), False), ((older, TABLE_METADATA), True)):
        judgement = judge(proposal(4, remove("f1"), base=base), Winner(version=5, actions=[PROTOCOL]), "mine")
        assert isinstance(judgement, NoConflict if is_compatible else ProtocolChangedException)
        assert is_compatible or "it activates appendOnly" in judgement.problem


@pytest.mark.parametrize(
    ("feature", "is_compatible"),
    [
        ("deletionVectors", True),
        ("domainMetadata", True),
        ("vacuumProtocolCheck", True),
        ("checkpointProtection", True),
        ("clustering", False),
    ],
)
def test_a_feature_without_requirements_on_files_is_compatible(feature, is_compatible):
    features = {"reader_features": (), "writer_features": ("appendOnly", "invariants", feature)}
    new_protocol = Protocol(min_reader_version=3, min_writer_version=7, **features)
    judgement = judge(
        proposal(4, file("n"), base=(PROTOCOL, TABLE_METADATA)), Winner(version=5, actions=[new_protocol]), "mine"
    )
    assert isinstance(judgement, NoConflict if is_compatible else ProtocolChangedException)


def test_a_winning_commit_without_required_fields_is_read_and_counts_as_a_change_of_rows():
    lines = [{"add": {"path": "x", "partitionValues": None, "size": None}}, {"remove": {"path": "f1"}}, {"novelty": {}}]
    winner = read_winner(5, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [a.path for a in winner.adds_with_new_rows] == ["x"] and [r.data_change for r in winner.removes] == [True]
    assert isinstance(judge(proposal(4, file("n"), base=(PROTOCOL, TABLE_METADATA)), winner, "mine"), NoConflict)
    assert isinstance(judge(proposal_named("append that read all"), winner, "mine"), ConcurrentAppendException)


@pytest.mark.parametrize("spelling", ["d//x", "./d/x", "e/../d/x", "d%2Fx"])
def test_a_file_that_both_commits_remove_conflicts_in_any_spelling(spelling):
    current, winner = proposal(0, remove("d/x")), Winner(version=1, actions=[remove(spelling)])
    assert isinstance(judge(current, winner, "t"), ConcurrentDeleteDeleteException)
