"""The conflict rules: each pair of a current transaction and a winning commit, at each isolation level."""

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
from tests.unit.builders import PROTOCOL, SCHEMA, add, info, metadata, proposal, remove, struct, txn, vector

LEVELS = ("Serializable", "WriteSerializable", "SnapshotIsolation")


class AtSnapshot(Proposal):
    """A proposal at snapshot isolation. No table requires this level, but a commit may use it."""

    @property
    def isolation(self):
        return IsolationLevel.SNAPSHOT


TABLE = metadata(partition_columns=("day",))
NEWER = Protocol(min_reader_version=1, min_writer_version=3)


def below_ten():
    """The rows of day a with an id below 10."""
    schema = TableSchema(logical=SCHEMA, partition_columns=("day",))
    day = Comparison(column=("day",), operator=Operator.EQ, literal="a")
    number = Comparison(column=("id",), operator=Operator.LT, literal=10)
    return (FileTest(And((day, number)), schema),)


def file(path, day="a", low=0, **changes):
    stats = {"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": low + 5}, "nullCount": {"id": 0}}
    return add(path, partition_values={"day": day}, stats=json.dumps(stats), **changes)


FOUND = ReadSet(keys=frozenset({"f1"}), rows=below_ten())
EVERYTHING = ReadSet(whole_table=True)
QUIET = {"data_change": False}
OURS = {
    "append": ([file("n")], None),
    "append that read all": ([file("n")], EVERYTHING),
    "replace": ([remove("f1"), file("n")], FOUND),
    "overwrite": ([remove("f1"), remove("f2"), file("n")], EVERYTHING),
    "compaction": ([remove("f1", **QUIET), file("n", **QUIET)], FOUND),
    "recorded compaction": ([remove("f1", **QUIET), file("n", **QUIET), txn("run")], FOUND),
    "retaken files": ([remove("f1"), file("n")], ReadSet(keys=frozenset({"f1"}))),
    "properties": ([metadata({"k": "v"}, partition_columns=("day",))], None),
    "replace, evolving": ([remove("f1"), file("n"), metadata({"k": "v"}, partition_columns=("day",))], FOUND),
    "upgrade": ([NEWER], None),
    "record": ([txn("run")], None),
}  # fmt: skip
BLIND = info(operation="WRITE", isBlindAppend=True)
KNOWING = info(operation="MERGE", isBlindAppend=False)
WINNERS = {
    "append": [BLIND, file("w")],
    "append elsewhere": [BLIND, file("w", day="b")],
    "append above": [BLIND, file("w", low=10)],
    "append, silent": [file("w")],
    "insert": [KNOWING, file("w")],
    "insert elsewhere": [KNOWING, file("w", day="b")],
    "delete of ours": [KNOWING, remove("f1")],
    "delete": [KNOWING, remove("f9")],
    "update of ours": [KNOWING, remove("f1"), file("w")],
    "update, another vector": [KNOWING, remove("f1", deletion_vector=vector("x")), file("f1", day="b")],
    "compaction of ours": [info(operation="OPTIMIZE"), remove("f1", **QUIET), file("w", **QUIET)],
    "compaction": [info(operation="OPTIMIZE"), remove("f9", **QUIET), file("w", **QUIET)],
    "another run": [BLIND, txn("another")],
    "a harmless property": [metadata({"delta.logRetentionDuration": "interval 1 day", "mine": "x"},
                                     partition_columns=("day",), name="orders")],
    "a property that matters": [metadata({"delta.appendOnly": "true"}, partition_columns=("day",))],
    "another schema": [metadata(schema=struct(id="long", day="string", x="long"), partition_columns=("day",))],
    "a newer protocol": [NEWER],
    "a protocol nobody here writes": [Protocol(min_reader_version=1, min_writer_version=7,
                                               writer_features=("appendOnly", "invariants", "fromTheFuture"))],
}  # fmt: skip
MEANING = {
    "A": ConcurrentAppendException, "R": ConcurrentDeleteReadException, "D": ConcurrentDeleteDeleteException,
    "M": MetadataChangedException, "P": ProtocolChangedException, ".": None,
}  # fmt: skip
# A column for each of WINNERS, in their order; where the levels differ, a cell has a letter for each of LEVELS.
MATRIX = """
append               .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   .   P
append that read all A.. A.. A.. AA. AA. AA. R   R   AAR AAR .   .   .   .   M   M   .   P
replace              A.. .   .   AA. AA. .   D   .   AAD .   D   .   .   .   M   M   .   P
overwrite            A.. A.. A.. AA. AA. AA. D   R   AAD AAR D   .   .   .   M   M   .   P
compaction           .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
recorded compaction  .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
retaken files        .   .   .   .   .   .   D   .   D   .   D   .   .   .   M   M   .   P
properties           .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   M   .   P
replace, evolving    A   .   .   A   A   .   D   .   A   .   D   .   .   M   M   M   .   P
upgrade              .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   P   P
record               .   .   .   .   .   .   .   .   .   .   .   .   .   .   M   M   .   P
"""


def cells():
    for line in MATRIX.strip().splitlines():
        name, letters = line[:21].strip(), line[21:].split()
        assert len(letters) == len(WINNERS), name
        for winner, cell in zip(WINNERS, letters, strict=True):
            for level, letter in zip(LEVELS, cell if len(cell) > 1 else cell * len(LEVELS), strict=True):
                yield pytest.param(name, winner, level, MEANING[letter], id=f"{name} | {winner} | {level}")


def asked_for(level):
    """The table's properties."""
    return {} if level == "SnapshotIsolation" else {"delta.isolationLevel": level}


def proposed(name, level="Serializable"):
    actions, reads = OURS[name]
    rules = (PROTOCOL, dataclasses.replace(TABLE, configuration=asked_for(level)))
    current = proposal(4, *actions, reads=reads, rules=rules, name="WRITE")
    if level != "SnapshotIsolation":
        return current
    return AtSnapshot(**{f.name: getattr(current, f.name) for f in dataclasses.fields(current)})


def verdict(ours, winner, level):
    actions = [
        dataclasses.replace(a, configuration={**asked_for(level), **a.configuration}) if a.action == "metaData" else a
        for a in WINNERS[winner]
    ]
    return judge(proposed(ours, level), Winner(version=5, actions=actions), "mine")


@pytest.mark.parametrize(("ours", "winner", "level", "error"), list(cells()))
def test_a_winning_commit_conflicts_as_the_matrix_says(ours, winner, level, error):
    conflict = verdict(ours, winner, level)
    if error is None:
        assert isinstance(conflict, NoConflict)
    else:
        assert type(conflict) is error and "version 5" in conflict.problem and conflict.retryable and conflict.remedy


def test_the_matrix_has_every_pair():
    assert len(list(cells())) == len(OURS) * len(WINNERS) * len(LEVELS)


def test_the_error_names_the_change_of_the_winning_commit():
    descriptions = {
        "a property that matters": "the property delta.appendOnly",
        "another schema": "its schema",
        "a protocol nobody here writes": "fromTheFuture",
    }
    for winner, words in descriptions.items():
        assert words in verdict("append", winner, "Serializable").problem
    assert "day=a" in verdict("replace", "append", "Serializable").problem
    assert "the file f1" in verdict("replace", "compaction of ours", "Serializable").problem


def test_the_isolation_level_is_lowered_only_for_commits_that_keep_rows():
    lowered = {name for name in OURS if proposed(name).isolation.value == "SnapshotIsolation"}
    assert lowered == {"compaction", "recorded compaction"}


def test_a_read_file_is_followed_to_the_files_that_replaced_it():
    """The second winning commit removes rows that the transaction has read, from another file."""
    current = proposal(4, file("n"), reads=ReadSet(keys=frozenset({"f1"})), rules=(PROTOCOL, TABLE))
    moved = judge(current, Winner(version=5, actions=WINNERS["compaction of ours"]), "mine")
    assert isinstance(moved, NoConflict) and moved.reads.keys == {"f1", "w"}
    then = judge(
        dataclasses.replace(current, reads=moved.reads), Winner(version=6, actions=[KNOWING, remove("w")]), "mine"
    )
    assert isinstance(then, ConcurrentDeleteReadException)


def with_about(key):
    """The schema with metadata on its first column."""
    return schema_to_json(SCHEMA).replace('"metadata":{}', f'"metadata":{{"{key}":"x"}}', 1)


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        ({"description": "All orders."}, True),
        ({"schema_string": with_about("comment")}, True),
        ({"schema_string": with_about("delta.identity.highWaterMark")}, True),
        ({"schema_string": with_about("delta.identity.step")}, False),
        ({"schema_string": with_about("delta.columnMapping.physicalName")}, False),
        ({"schema_string": with_about("delta.invariants")}, False),
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
def test_a_metadata_change_on_which_no_row_depends_is_compatible(change, stands):
    current = proposal(4, file("n"), rules=(PROTOCOL, TABLE))
    judgement = judge(current, Winner(version=5, actions=[dataclasses.replace(TABLE, **change)]), "mine")
    assert isinstance(judgement, NoConflict if stands else MetadataChangedException)


def test_a_protocol_that_drops_a_feature_is_not_compatible():
    older = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invariants",))
    judgement = judge(proposal(4, file("n"), rules=(PROTOCOL, TABLE)), Winner(version=5, actions=[older]), "mine")
    assert isinstance(judgement, ProtocolChangedException) and "appendOnly" in judgement.problem


@pytest.mark.parametrize(
    "older",
    [
        Protocol(min_reader_version=1, min_writer_version=1),
        Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invariants",)),
    ],
)
def test_a_protocol_with_a_newly_active_property_is_not_compatible(older):
    asleep = dataclasses.replace(TABLE, configuration={"delta.appendOnly": "true"})
    for rules, stands in (((older, asleep), False), ((older, TABLE), True)):
        judgement = judge(proposal(4, remove("f1"), rules=rules), Winner(version=5, actions=[PROTOCOL]), "mine")
        assert isinstance(judgement, NoConflict if stands else ProtocolChangedException)
        assert stands or "it activates appendOnly" in judgement.problem


@pytest.mark.parametrize(
    ("feature", "stands"),
    [
        ("deletionVectors", True),
        ("domainMetadata", True),
        ("vacuumProtocolCheck", True),
        ("checkpointProtection", True),
        ("clustering", False),
    ],
)
def test_a_feature_without_requirements_on_files_is_compatible(feature, stands):
    lists = {"reader_features": (), "writer_features": ("appendOnly", "invariants", feature)}
    more = Protocol(min_reader_version=3, min_writer_version=7, **lists)
    judgement = judge(proposal(4, file("n"), rules=(PROTOCOL, TABLE)), Winner(version=5, actions=[more]), "mine")
    assert isinstance(judgement, NoConflict if stands else ProtocolChangedException)


def test_a_winning_commit_is_read_as_leniently_as_a_table_and_its_files_change_rows():
    lines = [{"add": {"path": "x", "partitionValues": None, "size": None}}, {"remove": {"path": "f1"}}, {"novelty": {}}]
    winner = read_winner(5, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    assert [a.path for a in winner.new_rows] == ["x"] and [r.data_change for r in winner.removes] == [True]
    assert isinstance(judge(proposal(4, file("n"), rules=(PROTOCOL, TABLE)), winner, "mine"), NoConflict)
    assert isinstance(judge(proposed("append that read all"), winner, "mine"), ConcurrentAppendException)


@pytest.mark.parametrize("spelled", ["d//x", "./d/x", "e/../d/x", "d%2Fx"])
def test_a_file_that_both_commits_remove_conflicts_in_any_spelling(spelled):
    current, winner = proposal(0, remove("d/x")), Winner(version=1, actions=[remove(spelled)])
    assert isinstance(judge(current, winner, "t"), ConcurrentDeleteDeleteException)
