"""After a read of a missing file, a command looks for the lost files of its sources and replans."""

from __future__ import annotations

import pytest

from deltalite.change_feed import plan_changes
from deltalite.commands.common.replanning import NewPlanNeeded
from deltalite.commands.flows.lost_files import LostFiles, find_loss
from deltalite.commands.flows.ranges import Loss
from deltalite.errors import CorruptDataFileError, InvalidRequestError, SourceNotFoundError
from deltalite.protocol.actions import Protocol
from deltalite.spark.reader.incremental import SourceLoad
from tests.unit.builders import add, commit_actions, create, load, metadata, new_store, remove, vector

VECTOR = vector("ab^-aqEH.-t@S}K{vb[*k^")
VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
MISSING = SourceNotFoundError("a file is missing", remedy="none")


@pytest.fixture
def source():
    """A source with a change feed whose versions 1 to 3 add `a`, add `b`, and add a vector to `a`. No file exists."""
    store = create(new_store())
    feed = {"delta.enableChangeDataFeed": "true"}
    commit_actions(store, Protocol(min_reader_version=1, min_writer_version=4), metadata(feed), add("a%20a"))
    commit_actions(store, add("b"))
    commit_actions(store, remove("a%20a"), add("a%20a", deletion_vector=VECTOR))
    return store


def put(store, *names):
    for name in names:
        store.write(name, b"rows")


def loads_of(store, name="source"):
    return {name: SourceLoad(snapshot=load(store), plan=plan_changes(store, 1))}


@pytest.mark.parametrize(
    ("existing", "loss"),
    [
        (["b", "a a"], Loss(file_name=VECTOR_FILE, first_version=3, last_version=3)),
        (["b", VECTOR_FILE], Loss(file_name="a a", first_version=1, last_version=3)),
        (["a a", VECTOR_FILE], Loss(file_name="b", first_version=2, last_version=2)),
        (["a a", "b", VECTOR_FILE], None),
    ],
)
def test_data_files_and_vector_files_can_be_lost(source, existing, loss):
    put(source, *existing)
    assert find_loss(plan_changes(source, 1)) == loss


@pytest.mark.parametrize("error", [MISSING, CorruptDataFileError("a vector is missing", remedy="none")])
def test_a_command_replans_once_for_a_loss(source, error):
    put(source, "a a", VECTOR_FILE)
    lost_files = LostFiles()
    replans = pytest.raises(NewPlanNeeded, match="source: a file of version 2 no longer exists")
    with replans, lost_files.replan_after_loss(loads_of(source)):
        raise error
    assert lost_files.loss_of("source").file_name == "b" and lost_files.loss_of("another") is None
    with pytest.raises(type(error)), lost_files.replan_after_loss(loads_of(source)):
        raise error


def test_a_missing_file_of_another_source_is_no_loss(source):
    put(source, "a a", "b", VECTOR_FILE)
    lost_files = LostFiles()
    snapshot_load = {"snapshot": SourceLoad(snapshot=load(source))}
    for loads in (loads_of(source), snapshot_load, {}):
        with pytest.raises(SourceNotFoundError), lost_files.replan_after_loss(loads):
            raise MISSING
    assert lost_files.loss_of("source") is None


def test_other_errors_cause_no_search(source):
    lost_files = LostFiles()
    for error in (InvalidRequestError("a wrong query", remedy="none"), ValueError("a bug")):
        with pytest.raises(type(error)), lost_files.replan_after_loss(loads_of(source)):
            raise error
    assert lost_files.loss_of("source") is None
