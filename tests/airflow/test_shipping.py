"""What travels to Spark: the same library makes the same file, and a request is gone when its task ends."""

import os
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from airflow_provider_deltalite import shipping


@pytest.fixture
def package(tmp_path):
    root = tmp_path / "site" / "deltalite"
    (root / "jobs").mkdir(parents=True)
    (root / "__init__.py").write_text("VALUE = 1\n")
    (root / "py.typed").write_text("")
    (root / "jobs" / "write.py").write_text("print('ran')\n")
    (root / "notes.txt").write_text("not code")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"0")
    return root


def test_equal_sources_give_equal_bytes_whatever_their_times(package):
    first = shipping.library_zip(package)
    for path in package.rglob("*.py"):
        os.utime(path, (1, 1))
    assert shipping.library_zip(package) == first


def test_only_sources_and_the_typing_marker_travel_in_sorted_order(package, tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(shipping.library_zip(package))
    assert zipfile.ZipFile(archive).namelist() == [
        "deltalite/__init__.py",
        "deltalite/jobs/write.py",
        "deltalite/py.typed",
    ]


def test_a_changed_source_gets_another_name(package, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "installed_library", lambda: package)
    before = shipping.shipped_library(tmp_path)
    (package / "__init__.py").write_text("VALUE = 2\n")
    after = shipping.shipped_library(tmp_path)
    assert before != after and before.exists() and after.exists()


def test_a_library_that_is_there_is_not_written_again_and_nothing_is_left_beside_it(package, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "installed_library", lambda: package)
    cache = tmp_path / "cache"
    cache.mkdir()
    made = shipping.shipped_library(cache)
    inode = made.stat().st_ino
    assert shipping.shipped_library(cache).stat().st_ino == inode
    assert [p.name for p in cache.iterdir()] == [made.name]


def test_the_installed_library_can_be_imported_from_its_zip(tmp_path):
    library = shipping.shipped_library(tmp_path)
    code = "import deltalite.requests as m; print(m.__file__)"
    clean = [sys.executable, "-S", "-c", code]
    shown = subprocess.run(clean, env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith(str(library))


def test_a_request_is_readable_by_its_owner_alone_and_gone_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path))
    with shipping.shipped("write", '{"a": 1}') as job:
        request = Path(job.request)
        assert request.read_text() == '{"a": 1}'
        assert stat.S_IMODE(request.stat().st_mode) == 0o600
        assert job.script.endswith("/deltalite/jobs/write.py")
        assert Path(job.library).suffix == ".zip"
    assert not request.exists()


def test_a_request_is_gone_also_when_the_task_fails():
    with pytest.raises(RuntimeError), shipping.shipped("write", "{}") as job:
        raise RuntimeError
    assert not Path(job.request).exists()


def test_a_folder_that_others_may_write_holds_no_library_of_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path))
    first = shipping.cache_directory()
    assert shipping.cache_directory() == first
    first.chmod(0o777)
    assert shipping.cache_directory() != first
    assert stat.S_IMODE(shipping.cache_directory().stat().st_mode) == 0o700


def test_a_request_is_for_its_owner_alone_and_gone_with_the_block(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "cache_directory", lambda: tmp_path)
    with shipping.shipped("write", "{}") as job:
        request = Path(job.request)
        assert request.read_text() == "{}"
        assert stat.S_IMODE(request.stat().st_mode) == 0o600 and stat.S_IMODE(request.parent.stat().st_mode) == 0o700
        shipping.sweep(tmp_path, now=time.time() + 30 * 24 * 3600)
        assert request.exists(), "a task that lasts a month was swept away"
    assert [path.suffix for path in tmp_path.iterdir()] == [".zip"]


WORKER = """
import sys, time
from pathlib import Path
from airflow_provider_deltalite import shipping
shipping.cache_directory = lambda: Path(sys.argv[1])
with shipping.shipped("write", "{}") as job:
    print(job.request, flush=True)
    time.sleep(600)
"""


def test_what_a_killed_worker_left_is_swept_once_its_job_has_read_it(tmp_path):
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    request = Path(worker.stdout.readline().strip())
    other = tmp_path / "other"
    other.mkdir()
    shipping.sweep(tmp_path, now=time.time() + 7200)
    assert request.exists(), "its worker lives"
    worker.kill()
    worker.wait()
    worker.stdout.close()
    shipping.sweep(tmp_path, now=time.time() + 60)
    assert request.exists(), "the job of the killed worker may only be starting"
    shipping.sweep(tmp_path, now=time.time() + 7200)
    assert not request.parent.exists()
    assert other.exists()
