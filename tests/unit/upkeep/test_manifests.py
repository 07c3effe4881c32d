"""Symlink manifests list the files of the newest version, even if other writers commit at the same time."""

from __future__ import annotations

import logging
import os
from dataclasses import replace

import pytest

from deltalite.commands.generate_manifest import generate_manifest
from deltalite.commands.vacuum import vacuum
from deltalite.errors import ConcurrentWriteException, InvalidRequestError, StorageError, UnsupportedFeatureError
from deltalite.inspection.verify import verify
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import MANIFEST_DIR
from deltalite.protocol.properties import check_new_properties
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.requests import GenerateManifestRequest, VacuumRequest
from deltalite.storage.local import LocalLogStore
from deltalite.storage.local_tree import LocalTree
from deltalite.upkeep.manifests import generate_manifests, touched_directories, update_manifests
from deltalite.upkeep.post_commit import after_commit
from tests.unit.builders import add, commit_actions, create, load, metadata, newest_version, remove, struct, vector

MANIFESTS_ENABLED = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
BY_DAY = {"schema": struct(id="long", day="string"), "partition_columns": ("day",)}
WITH_VECTORS = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)


def add_of_day(name, day, **changes):
    return add(name, partition_values={"day": day}, **changes)


def remove_of_day(name, day):
    return remove(name, partition_values={"day": day}, extended_file_metadata=True, size_bytes=10)


@pytest.fixture
def store(tmp_path):
    return LocalLogStore(str(tmp_path / "a table"))


def manifests(store):
    """Every file in the manifests' folder with its lines, as addresses relative to the table."""
    folder = f"{store.root}/{MANIFEST_DIR}"
    lines_by_file = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                lines = file.read().split("\n")
            assert lines.pop() == ""
            assert all(line.startswith(f"file:{store.root}/") for line in lines)
            relative_path = os.path.relpath(os.path.join(directory, name), folder)
            lines_by_file[relative_path] = [line.removeprefix(f"file:{store.root}/") for line in lines]
    return lines_by_file


def folders(store):
    return {name for _, names, _ in os.walk(f"{store.root}/{MANIFEST_DIR}") for name in names}


def commit_files(store, *actions):
    """Commit actions, and do the post-commit work."""
    after_commit(store, commit_actions(store, *actions))


def generate(store):
    return generate_manifests(store, LocalTree(store.root))


def test_each_partition_has_a_manifest_with_the_names_of_its_files(store):
    create(
        store, add_of_day("day=a%20b/1%2520.parquet", "a b"), add_of_day("x/2", "a b"), add_of_day("3", "50%"), **BY_DAY
    )
    commit_actions(store, add_of_day("4", None), add_of_day("5", ""))
    summary = generate(store)
    assert (summary.version, summary.manifests, summary.files, summary.deleted) == (1, 3, 5, 0)
    assert manifests(store) == {
        "day=a b/manifest": ["day=a b/1%20.parquet", "x/2"],
        "day=50%25/manifest": ["3"],
        "day=__HIVE_DEFAULT_PARTITION__/manifest": ["4", "5"],
    }


def test_directories_nest_in_the_order_of_the_partition_columns(store):
    schema = StructType(tuple(StructField(n, PrimitiveType("string")) for n in ("id", "b:c", "a")))
    values = {"A": "1", "b:c": "2"}  # the log may spell a column in another case
    create(store, add("f", partition_values=values), schema=schema, partition_columns=("b:c", "a"))
    generate(store)
    assert manifests(store) == {"b%3Ac=2/a=1/manifest": ["f"]}


def test_a_table_without_partitions_has_one_manifest_even_if_empty(store):
    create(store, add("b"), add("a"))
    generate(store)
    assert manifests(store) == {"manifest": ["a", "b"]}
    commit_actions(store, remove("a"), remove("b"))
    generate(store)
    assert manifests(store) == {"manifest": []}


def test_files_outside_the_table_keep_their_address(store):
    create(store, add("file:/else/a%20b"), add("s3://b/c%20d"), add("/e"))
    generate(store)
    with open(f"{store.root}/{MANIFEST_DIR}/manifest") as file:
        assert file.read() == "file:/e\nfile:/else/a b\ns3://b/c d\n"


def test_a_file_name_with_a_line_break_is_rejected(store):
    create(store, add("a%0Ab"))
    with pytest.raises(UnsupportedFeatureError, match="line break"):
        generate(store)
    assert manifests(store) == {}


def test_generating_again_deletes_superfluous_manifests_and_their_folders(store):
    create(store, add("f"))
    generate(store)
    by_two = {"schema": struct(id="long", day="string", hour="string"), "partition_columns": ("day", "hour")}
    first, second = (add(n, partition_values={"day": n, "hour": "1"}) for n in ("x", "y"))
    commit_actions(store, metadata(None, **by_two), remove("f"), first, second)
    assert generate(store).deleted == 1
    assert manifests(store) == {"day=x/hour=1/manifest": ["x"], "day=y/hour=1/manifest": ["y"]}
    commit_actions(store, remove("x", partition_values={"day": "x", "hour": "1"}))
    assert generate(store).deleted == 1
    assert manifests(store) == {"day=y/hour=1/manifest": ["y"]}
    assert folders(store) == {"day=y", "hour=1"}


def test_commits_write_manifests_only_if_the_property_is_set(store):
    create(store, add("f"))
    commit_files(store, add("g"))
    assert manifests(store) == {}


def test_a_commit_writes_only_the_manifests_of_its_partitions(store):
    create(
        store,
        add_of_day("1", "a"),
        add_of_day("2", "b"),
        add_of_day("3", "c"),
        configuration=MANIFESTS_ENABLED,
        **BY_DAY,
    )
    after_commit(store, 0)
    for name in ("a", "b", "c"):
        os.utime(f"{store.root}/{MANIFEST_DIR}/day={name}/manifest", (0, 0))
    commit_files(store, add_of_day("4", "a"), remove_of_day("2", "b"), add_of_day("5", "d"))
    assert manifests(store) == {"day=a/manifest": ["1", "4"], "day=c/manifest": ["3"], "day=d/manifest": ["5"]}
    assert folders(store) == {"day=a", "day=c", "day=d"}
    assert os.stat(f"{store.root}/{MANIFEST_DIR}/day=c/manifest").st_mtime == 0


def test_the_first_commit_that_writes_manifests_writes_all_manifests(store):
    create(store, add_of_day("1", "a"), configuration=MANIFESTS_ENABLED, **BY_DAY)
    commit_files(store, add_of_day("2", "b"))
    assert manifests(store) == {"day=a/manifest": ["1"], "day=b/manifest": ["2"]}


def test_a_commit_with_another_partitioning_replaces_all_manifests(store):
    create(store, add_of_day("1", "a"), add_of_day("2", "b"), configuration=MANIFESTS_ENABLED, **BY_DAY)
    after_commit(store, 0)
    commit_files(store, remove_of_day("1", "a"), remove_of_day("2", "b"), metadata(MANIFESTS_ENABLED), add("3"))
    assert manifests(store) == {"manifest": ["3"]}
    assert folders(store) == set()


def test_a_removed_file_without_partition_values_makes_a_commit_write_all_manifests(store):
    assert touched_directories([("remove", {"path": "f"})], ("day",)) is None
    assert touched_directories([("remove", {"path": "f"})], ()) == {""}
    create(store, add_of_day("1", "a"), add_of_day("2", "b"), configuration=MANIFESTS_ENABLED, **BY_DAY)
    after_commit(store, 0)
    commit_files(store, remove("1"))
    assert manifests(store) == {"day=b/manifest": ["2"]}


def test_a_commit_without_files_writes_no_manifest(store):
    create(store, configuration=MANIFESTS_ENABLED)
    generate(store)
    os.utime(f"{store.root}/{MANIFEST_DIR}/manifest", (0, 0))
    version = commit_actions(store, read_version=0)
    assert update_manifests(store, LocalTree(store.root), version) is None
    assert os.stat(f"{store.root}/{MANIFEST_DIR}/manifest").st_mtime == 0


class RacedStore(LocalLogStore):
    """A store that calls `commit_rival` after the table was read and before the first manifest is written."""

    def __init__(self, root, commit_rival):
        super().__init__(root)
        self.rivals = [commit_rival]

    def write(self, name, data):
        if name.startswith(MANIFEST_DIR) and self.rivals:
            commit_rival = self.rivals.pop()
            commit_rival()
        super().write(name, data)


def test_an_overtaken_writer_writes_the_manifests_of_the_newer_commit(store):
    """The rival has written its manifests first, and the slower writer must not replace them with older ones."""
    create(store, add_of_day("1", "a"), add_of_day("2", "b"), configuration=MANIFESTS_ENABLED, **BY_DAY)
    after_commit(store, 0)
    version = commit_actions(store, add_of_day("3", "a"), add_of_day("4", "b"))
    commit_rival = lambda: commit_files(
        store, add_of_day("5", "a"), remove_of_day("2", "b"), remove_of_day("4", "b"), add_of_day("6", "c")
    )
    update_manifests(RacedStore(store.root, commit_rival), LocalTree(store.root), version)
    expected = {"day=a/manifest": ["1", "3", "5"], "day=c/manifest": ["6"]}
    assert manifests(store) == expected
    generate_manifests(
        RacedStore(store.root, lambda: commit_files(store, remove_of_day("6", "c"))), LocalTree(store.root)
    )
    assert manifests(store) == {"day=a/manifest": ["1", "3", "5"]}


def test_manifests_include_a_concurrent_commit_of_an_engine_without_manifests(store):
    create(store, add_of_day("1", "a"), add_of_day("2", "b"), **BY_DAY)
    commit_without_manifests = lambda: commit_actions(store, remove_of_day("2", "b"), add_of_day("3", "c"))
    summary = generate_manifests(RacedStore(store.root, commit_without_manifests), LocalTree(store.root))
    assert manifests(store) == {"day=a/manifest": ["1"], "day=c/manifest": ["3"]}
    assert (summary.version, summary.manifests, summary.files, summary.deleted) == (1, 3, 3, 1)


def test_a_partition_that_a_concurrent_commit_fills_keeps_its_manifest(store):
    create(store, add_of_day("1", "a"), add_of_day("2", "b"), configuration=MANIFESTS_ENABLED, **BY_DAY)
    after_commit(store, 0)
    version = commit_actions(store, remove_of_day("1", "a"), add_of_day("3", "b"))
    update_manifests(
        RacedStore(store.root, lambda: commit_files(store, add_of_day("4", "a"))), LocalTree(store.root), version
    )
    assert manifests(store) == {"day=a/manifest": ["4"], "day=b/manifest": ["2", "3"]}


def test_constant_concurrent_commits_raise_an_error(store):
    create(store, add("0"))

    class ConstantlyRacedStore(LocalLogStore):
        def write(self, name, data):
            super().write(name, data)
            commit_actions(store, add(f"f{newest_version(store)}"))

    with pytest.raises(ConcurrentWriteException, match="manifests") as caught:
        generate_manifests(ConstantlyRacedStore(store.root), LocalTree(store.root))
    assert caught.value.retryable
    assert len(manifests(store)["manifest"]) > 1


def create_with_vector(store):
    create(store, add("f"))
    commit_actions(store, WITH_VECTORS, remove("f"), add("f", deletion_vector=vector("vBn[lx{q8@P<9BNH/isA")))


def create_with_mapping(store):
    mapped = StructField(
        "id", PrimitiveType("long"), True, {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}
    )
    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    commit_actions(
        store,
        replace(WITH_VECTORS, reader_features=("columnMapping",), writer_features=("columnMapping",)),
        metadata(mode, schema=StructType((mapped,))),
        add("f"),
        read_version=-1,
    )


@pytest.mark.parametrize(
    ("create_table", "feature"), [(create_with_vector, "deletion vectors"), (create_with_mapping, "column mapping")]
)
def test_a_table_with_deletion_vectors_or_column_mapping_gets_no_manifests(store, create_table, feature):
    create_table(store)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        generate_manifest(None, GenerateManifestRequest(table=store.root))
    assert not os.path.exists(f"{store.root}/{MANIFEST_DIR}")


def test_a_table_with_the_vector_feature_but_no_vectors_has_manifests(store):
    commit_actions(store, WITH_VECTORS, metadata(), add("f"), read_version=-1)
    result = generate_manifest(None, GenerateManifestRequest(table=store.root))
    assert (result.operation, result.version, result.committed, result.skipped) == ("GENERATE", 0, False, False)
    assert result.metrics == {"numManifests": 1, "numFiles": 1, "numDeletedManifests": 0}


@pytest.mark.parametrize(
    "property_of_feature", [{"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "id"}]
)
def test_the_manifest_property_excludes_deletion_vectors_and_column_mapping(property_of_feature):
    check_new_properties(MANIFESTS_ENABLED)
    check_new_properties(property_of_feature | {next(iter(MANIFESTS_ENABLED)): "false"})
    with pytest.raises(InvalidRequestError, match=next(iter(property_of_feature))):
        check_new_properties(MANIFESTS_ENABLED | property_of_feature)


def test_a_failure_after_the_commit_only_warns(store, caplog, monkeypatch):
    create(store, add("f"), configuration=MANIFESTS_ENABLED)

    def fail_write(_store, name, _data):
        raise StorageError(f"{name}: the disk is full.", remedy="Make room.")

    monkeypatch.setattr(LocalLogStore, "write", fail_write)
    with caplog.at_level(logging.WARNING):
        commit_files(store, add("g"))
    (record,) = caplog.records
    assert "Updating the symlink manifests failed after version 1" in record.getMessage()
    assert "until DeltaGenerateManifestOperator runs" in record.getMessage()
    assert len(load(store).files) == 2


def test_vacuum_keeps_manifests_and_verify_ignores_them(store):
    create(store, configuration=MANIFESTS_ENABLED, schema=struct(id="long", _s="string"), partition_columns=("_s",))
    generate_manifests(store, LocalTree(store.root))
    commit_files(store)
    os.makedirs(f"{store.root}/{MANIFEST_DIR}/_s=a")
    for name in ("manifest", "_s=a/manifest"):
        with open(f"{store.root}/{MANIFEST_DIR}/{name}", "w") as file:
            file.write("x\n")
        os.utime(f"{store.root}/{MANIFEST_DIR}/{name}", (0, 0))
    before = manifest_names(store)
    vacuum(None, VacuumRequest(table=store.root))
    assert manifest_names(store) == before
    assert verify(store).findings == ()


def manifest_names(store):
    return {(directory, *sorted(names)) for directory, _, names in os.walk(f"{store.root}/{MANIFEST_DIR}")}
