"""The local store: only one writer creates a name, files are complete or absent, and file-system errors are typed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite.errors import StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.local import LocalLogStore

NAME = "_delta_log/00000000000000000000.json"


@pytest.fixture
def store(tmp_path):
    return LocalLogStore(str(tmp_path))


def files_in(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file())


def test_the_first_put_wins_and_the_second_changes_nothing(store, tmp_path):
    assert store.write_if_absent(NAME, b"one") is True
    assert store.write_if_absent(NAME, b"two") is False
    assert store.read(NAME) == b"one"
    assert files_in(tmp_path) == [NAME]


def test_write_replaces_a_file_and_delete_removes_it(store, tmp_path):
    store.write("a/b", b"1")
    store.write("a/b", b"2")
    assert store.read("a/b") == b"2"
    store.delete("a/b")
    store.delete("a/b")
    assert store.read("a/b") is None
    assert files_in(tmp_path) == []


def test_a_folder_that_another_writer_removes_while_it_is_empty_is_made_again(store, tmp_path, monkeypatch):
    make_folder, removals = Path.mkdir, [1] * 4

    def make_folder_that_a_rival_removes(folder, *arguments, **options):
        make_folder(folder, *arguments, **options)
        if removals:
            removals.pop()
            folder.rmdir()

    monkeypatch.setattr(Path, "mkdir", make_folder_that_a_rival_removes)
    store.write("manifests/day=a/manifest", b"1")
    assert store.read("manifests/day=a/manifest") == b"1"
    removals += [1] * 100
    with pytest.raises(StorageError, match="manifests/day=b"):
        store.write("manifests/day=b/manifest", b"1")


def test_a_listing_is_sorted_starts_at_the_name_and_has_files_only(store, tmp_path):
    for name in ("_delta_log/2", "_delta_log/10", "_delta_log/1", "_delta_log/sub/3", "_delta_log/.2.tmp", "2"):
        store.write(name, b"xy")
    os.utime(tmp_path / "_delta_log/10", ns=(0, 1_700_000_000_123_999_999))
    assert [f.name for f in store.list_from("_delta_log/10")] == ["_delta_log/10", "_delta_log/2"]
    assert next(store.list_from("_delta_log/")).name == "_delta_log/1"
    assert next(store.list_from("_delta_log/.")).name == "_delta_log/.2.tmp"
    ten = next(store.list_from("_delta_log/10"))
    assert (ten.size_bytes, ten.modified_ms) == (2, 1_700_000_000_123)
    assert list(store.list_from("nowhere/1")) == []


def test_a_file_in_place_of_the_folder_is_an_empty_table(tmp_path):
    (tmp_path / "file").write_text("x")
    store = LocalLogStore(str(tmp_path / "file"))
    assert list(store.list_from(NAME)) == [] and store.read(NAME) is None is store.read_start(NAME, 9)
    with pytest.raises(StorageError):
        store.write_if_absent(NAME, b"")


@pytest.mark.parametrize("name_format", ["{}", "file:{}", "file://{}"])
def test_absolute_names_are_used_unchanged(store, tmp_path, name_format):
    outside = tmp_path / "other" / "f"
    outside.parent.mkdir()
    outside.write_bytes(b"x")
    assert store.read(name_format.format(outside)) == b"x"
    with store.open(name_format.format(outside)) as handle:
        assert handle.read() == b"x"
    with pytest.raises(FileNotFoundError):
        store.open("missing")


def put_numbers(root, start_barrier, writer):
    store = LocalLogStore(root)
    start_barrier.wait()
    numbers_won = [n for n in range(60) if store.write_if_absent(f"_delta_log/{n:020d}.json", writer.encode() * 50_000)]
    Path(root, f"won-{writer}").write_text(" ".join(map(str, numbers_won)))


def test_exactly_one_of_two_processes_wins_each_name_and_no_temporary_file_remains(tmp_path):
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    start_barrier = context.Barrier(2)
    workers = [context.Process(target=put_numbers, args=(str(tmp_path), start_barrier, writer)) for writer in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
        assert worker.exitcode == 0
    won = {writer: set(map(int, (tmp_path / f"won-{writer}").read_text().split())) for writer in "ab"}
    assert won["a"] | won["b"] == set(range(60)) and not won["a"] & won["b"]
    for writer, numbers in won.items():
        for n in numbers:
            assert (tmp_path / f"_delta_log/{n:020d}.json").read_bytes() == writer.encode() * 50_000
    assert len(files_in(tmp_path / "_delta_log")) == 60


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errno.EPERM, UnsupportedStorageError),
        (errno.ENOTSUP, UnsupportedStorageError),
        (errno.EIO, StorageError),
        (errno.EACCES, StoragePermissionError),
    ],
)
def test_a_file_system_without_links_is_rejected_and_other_errors_keep_their_class(
    store, tmp_path, monkeypatch, code, error
):
    def fail_link(*_names):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", fail_link)
    with pytest.raises(error) as caught:
        store.write_if_absent(NAME, b"x")
    assert type(caught.value) is error
    assert files_in(tmp_path) == []


def test_a_single_writer_accepts_a_file_system_without_links(tmp_path, monkeypatch):
    def fail_link(*_names):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "link", fail_link)
    store = LocalLogStore(str(tmp_path), single_writer=True)
    assert (store.write_if_absent(NAME, b"one"), store.write_if_absent(NAME, b"two")) == (True, False)
    assert store.read(NAME) == b"one" and files_in(tmp_path) == [NAME]


READ_ONLY_SCRIPT = """
import os, sys
from deltalite.errors import StoragePermissionError
from deltalite.storage.local import LocalLogStore
from deltalite.snapshot import Snapshot
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
store = LocalLogStore(sys.argv[1])
for operation in (
    lambda: store.write_if_absent("_delta_log/00000000000000000001.json", b"x"),
    lambda: store.write("_delta_log/_last_checkpoint", b"x"),
    lambda: store.write_if_absent("new/x", b"x"),
    lambda: store.delete("_delta_log/00000000000000000000.json"),
    lambda: store.read("_delta_log/secret"),
    lambda: store.read_start("_delta_log/secret", 9),
    lambda: list(store.list_from("closed/x")),
):
    try:
        operation()
    except StoragePermissionError as error:
        assert not error.retryable and error.remedy
    else:
        sys.exit("no permission error")
print(store.read("_delta_log/00000000000000000000.json").decode())
"""


def test_a_folder_without_write_permission_is_readable_and_raises_a_permission_error_on_write(store, tmp_path):
    if not str(tmp_path).startswith("/tmp"):
        pytest.skip("another user cannot reach this folder")
    store.write_if_absent(NAME, b"readable")
    store.write("_delta_log/secret", b"x")
    store.write("closed/x", b"x")
    (tmp_path / "_delta_log/secret").chmod(0)
    parent_folders = [tmp_path, *tmp_path.parents][:-2]
    before = {folder: folder.stat().st_mode for folder in parent_folders}
    for folder in parent_folders:
        folder.chmod(before[folder] | 0o111)
    for folder, mode in ((tmp_path, 0o555), (tmp_path / "_delta_log", 0o555), (tmp_path / "closed", 0)):
        folder.chmod(mode)
    try:
        process = subprocess.run(
            [sys.executable, "-c", READ_ONLY_SCRIPT, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        for folder in (tmp_path, tmp_path / "_delta_log", tmp_path / "closed"):
            folder.chmod(0o755)
        for folder in parent_folders[1:]:
            folder.chmod(before[folder])
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, "readable", "")


def test_a_put_that_the_client_sent_twice_wins(store, tmp_path, monkeypatch):
    link = os.link

    def link_twice(source, target):
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert store.write_if_absent("x", b"mine") is True
    assert store.write_if_absent("x", b"theirs") is False
    assert store.read("x") == b"mine" and [f.name for f in tmp_path.iterdir()] == ["x"]
