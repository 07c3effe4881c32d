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
from tests.support.properties import FEED
from tests.unit.builders import add, commit_actions, create, load, metadata, new_store, remove, vector

VECTOR = vector("ab^-aqEH.-t@S}K{vb[*k^")
VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
MISSING = SourceNotFoundError("a file is missing", remedy="none")


@pytest.fixture
def source():
    """A source with a change feed. No file exists.

    The versions 1 to 4 add `a a`, add `b`, add a vector to `a a`, and replace both files by `c`.
    """
    store = create(new_store())
    commit_actions(store, Protocol(min_reader_version=1, min_writer_version=4), metadata(FEED), add("a%20a"))
    commit_actions(store, add("b"))
    commit_actions(store, remove("a%20a"), add("a%20a", deletion_vector=VECTOR))
    removes = remove("a%20a", deletion_vector=VECTOR, data_change=False), remove("b", data_change=False)
    commit_actions(store, *removes, add("c", data_change=False))
    return store


def put(store, *names):
    for name in names:
        store.write(name, b"rows")


def load_of(store, to_version=4):
    plan = plan_changes(store, 1, to_version)
    return SourceLoad(snapshot=plan.snapshot, plan=plan, has_change_columns=True)


def complete_load(store):
    return SourceLoad(snapshot=load(store))


@pytest.mark.parametrize("to_version", [1, 4])
@pytest.mark.parametrize(
    ("existing", "loss"),
    [
        (["b", "a a"], Loss(file_name=VECTOR_FILE, first_version=3, last_version=3)),
        (["b", VECTOR_FILE], Loss(file_name="a a", first_version=1, last_version=3)),
        (["a a", VECTOR_FILE], Loss(file_name="b", first_version=2, last_version=2)),
        (["a a", "b", VECTOR_FILE], None),
    ],
)
def test_data_files_and_vector_files_up_to_the_newest_version_can_be_lost(source, existing, loss, to_version):
    put(source, "c", *existing)
    assert find_loss(load_of(source, to_version)) == loss


def test_versions_that_no_plan_can_read_are_not_searched(source):
    put(source, "c", "a a", VECTOR_FILE)
    commit_actions(source, metadata(), add("d"))  # without a change feed
    assert find_loss(load_of(source, 2)) == Loss(file_name="b", first_version=2, last_version=2)


@pytest.mark.parametrize("make_load", [load_of, complete_load])
def test_a_lost_file_of_the_newest_version_is_damage_of_the_source(source, make_load):
    put(source, "a a", "b", VECTOR_FILE)
    source_load, lost_files = make_load(source), LostFiles()
    commit_actions(source, add("c2"))
    commit_actions(source, remove("c2"), add("c"))
    problem = r"is damaged: its newest version, 6, needs c, which does not exist"
    with pytest.raises(CorruptDataFileError, match=problem), lost_files.replan_after_loss({"source": source_load}):
        raise MISSING


def test_a_file_that_a_newer_version_replaced_is_no_damage(source):
    source_load = complete_load(source)
    commit_actions(source, remove("c"), add("d"))
    put(source, "d")
    with pytest.raises(SourceNotFoundError), LostFiles().replan_after_loss({"source": source_load}):
        raise MISSING


@pytest.mark.parametrize("error", [MISSING, CorruptDataFileError("a vector is missing", remedy="none")])
def test_a_command_replans_once_for_a_loss(source, error):
    put(source, "a a", VECTOR_FILE, "c")
    lost_files, loads = LostFiles(), {"source": load_of(source)}
    replans = pytest.raises(NewPlanNeeded, match="source: a file of version 2 no longer exists")
    with replans, lost_files.replan_after_loss(loads):
        raise error
    assert lost_files.loss_of("source").file_name == "b" and lost_files.loss_of("another") is None
    with pytest.raises(type(error)), lost_files.replan_after_loss(loads):
        raise error


def test_a_missing_file_of_another_source_is_no_loss(source):
    put(source, "a a", "b", VECTOR_FILE, "c")
    lost_files = LostFiles()
    empty_load = SourceLoad(snapshot=load(source), is_empty=True)
    for loads in ({"source": load_of(source)}, {"all": complete_load(source)}, {"empty": empty_load}, {}):
        with pytest.raises(SourceNotFoundError), lost_files.replan_after_loss(loads):
            raise MISSING
    assert lost_files.loss_of("source") is None


def test_other_errors_cause_no_search(source):
    lost_files = LostFiles()
    for error in (InvalidRequestError("a wrong query", remedy="none"), ValueError("a bug")):
        with pytest.raises(type(error)), lost_files.replan_after_loss({"source": load_of(source)}):
            raise error
    assert lost_files.loss_of("source") is None
