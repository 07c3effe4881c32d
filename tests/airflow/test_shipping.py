"""The files for Spark. Equal sources give an equal zip, and the worker removes a request when its task ends."""

import importlib.util
import os
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from airflow_provider_deltalite import shipping


def make_package(folder):
    """Make the folder of a small library. It also contains files that the zip must not contain."""
    root = folder / "site" / "deltalite"
    (root / "jobs").mkdir(parents=True)
    (root / "__init__.py").write_text("VALUE = 1\n")
    (root / "py.typed").write_text("")
    (root / "jobs" / "write.py").write_text("print('ran')\n")
    (root / "cli").mkdir()
    (root / "cli" / "main.py").write_text("print('for users only')\n")
    (root / "watch.py").write_text("print('for triggers only')\n")
    (root / "notes.txt").write_text("not code")
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"0")
    return root


@pytest.fixture
def package(tmp_path):
    """The folder of a small library, below the folder of the test."""
    return make_package(tmp_path)


@pytest.fixture(scope="module")
def small_library(tmp_path_factory):
    """The folder of a small library, outside of the folders of the tests."""
    return make_package(tmp_path_factory.mktemp("library"))


def zip_bytes_of(package) -> bytes:
    return shipping.library_zip(shipping.library_sources(package))


def empty_request(nonce):
    return "{}"


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch, small_library):
    """A temporary folder that only this test uses. The installed library is a small one, which is packed at once."""
    monkeypatch.setattr(shipping, "installed_library", lambda: small_library)
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_equal_sources_give_equal_bytes_with_any_modification_time(package):
    first_bytes = zip_bytes_of(package)
    for path in package.rglob("*.py"):
        os.utime(path, (1, 1))
    assert zip_bytes_of(package) == first_bytes


def test_the_zip_has_only_sources_of_jobs_and_the_typing_marker_in_sorted_order(package, tmp_path):
    archive = tmp_path / "x.zip"
    archive.write_bytes(zip_bytes_of(package))
    assert zipfile.ZipFile(archive).namelist() == [
        "deltalite/__init__.py",
        "deltalite/jobs/write.py",
        "deltalite/py.typed",
    ]


def test_a_changed_source_changes_the_name_of_the_zip(package, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "installed_library", lambda: package)
    first_zip = shipping.pack_library(tmp_path)
    (package / "__init__.py").write_text("VALUE = 2\n")
    second_zip = shipping.pack_library(tmp_path)
    assert first_zip != second_zip and first_zip.exists() and second_zip.exists()


def test_an_existing_zip_is_not_written_again_and_no_partial_file_remains(package, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "installed_library", lambda: package)
    cache = tmp_path / "cache"
    cache.mkdir()
    library = shipping.pack_library(cache)
    inode = library.stat().st_ino
    assert shipping.pack_library(cache).stat().st_ino == inode
    assert [path.name for path in cache.iterdir()] == [library.name]


def test_the_installed_library_can_be_imported_from_its_zip(tmp_path):
    library = shipping.pack_library(tmp_path)
    code = "import deltalite.requests as m; print(m.__file__)"
    command = [sys.executable, "-S", "-c", code]
    process = subprocess.run(command, env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=True)
    assert process.stdout.startswith(str(library))


@pytest.mark.slow
@pytest.mark.parametrize(("magic_number", "suffix"), [(importlib.util.MAGIC_NUMBER, ".pyc"), (b"0000", ".py")])
def test_a_driver_with_the_python_of_the_worker_uses_the_compiled_modules(tmp_path, monkeypatch, magic_number, suffix):
    monkeypatch.setattr(shipping, "MAGIC_NUMBER", magic_number)
    library = shipping.pack_library(tmp_path)
    code = """if True:
        import deltalite.requests as module
        print(module.__file__)
        module.Request.from_json("{")
    """
    process = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.strip() == f"{library}/deltalite/requests/__init__{suffix}"
    assert f'File "{library}/deltalite/requests/' in process.stderr


def test_the_sources_of_a_zip_with_compiled_modules_are_those_of_the_package(package, tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "installed_library", lambda: package)
    library = shipping.pack_library(tmp_path)
    assert any(name.endswith(".pyc") for name in zipfile.ZipFile(library).namelist())
    assert shipping.sources_in_zip(library) == shipping.library_sources(package)


def test_only_the_owner_can_read_a_request_and_it_is_removed_afterwards(temporary_folder):
    with shipping.ship_job("write", lambda nonce: f"nonce {nonce}") as job:
        request = Path(job.request)
        assert request.read_text() == f"nonce {job.nonce}" and len(job.nonce) == 32
        assert stat.S_IMODE(request.stat().st_mode) == 0o600
        assert job.script.endswith("/deltalite/jobs/write.py")
        assert Path(job.library).suffix == ".zip"
    assert not request.exists()


def test_the_request_is_removed_after_a_failed_task():
    with pytest.raises(RuntimeError), shipping.ship_job("write", empty_request) as job:
        raise RuntimeError
    assert not Path(job.request).exists()


def test_all_tasks_of_a_user_share_one_folder_and_one_zip(temporary_folder):
    for _ in range(2):
        with shipping.ship_job("write", empty_request):
            pass
    (folder,) = temporary_folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.suffix for path in folder.iterdir()] == [".zip"]


def test_an_existing_zip_is_not_packed_again(temporary_folder, monkeypatch):
    with shipping.ship_job("write", empty_request) as first_job:
        pass
    monkeypatch.setattr(shipping, "library_zip", lambda sources: pytest.fail("packed again"))
    with shipping.ship_job("write", empty_request) as second_job:
        assert second_job.library == first_job.library


def create_file(path):
    path.write_text("")


def create_dangling_link(path):
    path.symlink_to(path.with_name("nowhere"))


def create_link_to_folder(path):
    path.with_name("elsewhere").mkdir()
    path.symlink_to(path.with_name("elsewhere"))


def create_folder_that_all_users_can_write(path):
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.parametrize(
    "create_foreign_path",
    [create_file, create_dangling_link, create_link_to_folder, create_folder_that_all_users_can_write],
)
def test_a_foreign_file_or_folder_with_the_name_of_the_cache_is_not_used_and_fails_no_task(
    temporary_folder, create_foreign_path
):
    foreign_path = temporary_folder / f"airflow-provider-deltalite-{os.getuid()}"
    create_foreign_path(foreign_path)
    paths_before = sorted(temporary_folder.rglob("*"))
    with shipping.ship_job("write", empty_request) as job:
        folder = Path(job.library).parent
        assert folder.parent == temporary_folder and folder != foreign_path and not folder.is_symlink()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(temporary_folder.rglob("*")) == paths_before, "the task left files behind"


def test_a_folder_of_another_user_is_not_used(temporary_folder, monkeypatch):
    monkeypatch.setattr(shipping.os, "getuid", lambda: 12345)
    (temporary_folder / "airflow-provider-deltalite-12345").mkdir(mode=0o700)
    with shipping.ship_job("write", empty_request) as job:
        assert Path(job.library).parent.name != "airflow-provider-deltalite-12345"


def test_an_unused_zip_is_removed_after_a_week_and_a_partial_file_after_an_hour(tmp_path):
    for name in ("deltalite-old.zip", "x.tmp", "mine.txt"):
        (tmp_path / name).write_text("")
    os.utime(tmp_path / "x.tmp", (time.time() + 7000,) * 2)
    shipping.remove_unused_files(tmp_path, now=time.time() + 7200)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deltalite-old.zip", "mine.txt", "x.tmp"]
    shipping.remove_unused_files(tmp_path, now=time.time() + 8 * 86400)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_zip_that_a_task_uses_is_kept_for_another_week(temporary_folder):
    library = shipping.pack_library(temporary_folder)
    os.utime(library, (1, 1))
    shipping.pack_library(temporary_folder)
    shipping.remove_unused_files(temporary_folder, now=time.time())
    assert library.exists()


def test_a_failed_write_leaves_no_partial_zip(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "library_zip", lambda sources: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        shipping.pack_library(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_task_that_runs_for_a_month_keeps_its_request_and_its_library(temporary_folder):
    with shipping.ship_job("write", empty_request) as job:
        request = Path(job.request)
        assert stat.S_IMODE(request.stat().st_mode) == 0o600 and stat.S_IMODE(request.parent.stat().st_mode) == 0o700
        shipping.remove_unused_files(Path(job.library).parent, now=time.time() + 30 * 24 * 3600)
        assert request.exists() and Path(job.library).exists()
    assert not request.exists()


WORKER = """
import sys, time
from airflow_provider_deltalite import shipping
shipping.tempfile.tempdir = sys.argv[1]
with shipping.ship_job("write", lambda nonce: "{}") as job:
    print(job.request, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_name_taken", [False, True], ids=["the shared folder", "a private folder"])
def test_files_of_a_killed_worker_are_removed_after_an_hour(temporary_folder, is_name_taken, monkeypatch):
    if is_name_taken:
        create_file(temporary_folder / f"airflow-provider-deltalite-{os.getuid()}")
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(temporary_folder)], stdout=subprocess.PIPE, text=True)
    request = Path(worker.stdout.readline().strip())
    unrelated_folder = temporary_folder / "other"
    unrelated_folder.mkdir()
    now = time.time()

    def run_another_task_after(seconds):
        with monkeypatch.context() as patch:
            patch.setattr(shipping.time, "time", lambda: now + seconds)
            with shipping.ship_job("write", empty_request):
                pass

    run_another_task_after(7200)
    assert request.exists(), "the worker of the request still runs"
    worker.kill()
    worker.wait()
    worker.stdout.close()
    run_another_task_after(60)
    assert request.exists(), "the job of the killed worker may only be starting"
    run_another_task_after(7200)
    assert not request.parent.exists()
    assert unrelated_folder.exists()
