"""An archive of classes has a name that fits one Spark and one Java, and only a complete private file is used."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltalite.cli.main import main
from deltalite.errors import InstallationError
from deltalite.installation import class_archive, class_archive_making
from deltalite.installation.class_archive import LOCK_FILE, chooses_archive, fitting_archive, java_options, record_use
from deltalite.installation.class_archive_making import make_archive, reason_in
from deltalite.installation.private_folder import lock, open_private_folder, private_folder_path
from tests.support.class_archives import FAIL, StandIn, stand_in_for_spark


@pytest.fixture
def stand_in(tmp_path, monkeypatch) -> StandIn:
    return stand_in_for_spark(tmp_path, monkeypatch)


def test_the_name_changes_with_java_with_the_jars_and_with_this_package(stand_in, monkeypatch):
    jar = stand_in.folder / "spark" / "jars" / "spark-core_2.13-4.3.0.jar"

    def touch_jar() -> None:
        os.utime(jar, (1, 1))

    def replace_java() -> None:
        (stand_in.folder / "java" / "release").write_text('JAVA_VERSION="17.0.16"')

    changes = [
        touch_jar,
        replace_java,
        lambda: jar.write_text("another size"),
        (jar.parent / "connector.jar").touch,
        lambda: monkeypatch.setattr(class_archive, "VERSION", "99"),
    ]
    version, names = class_archive.VERSION, [stand_in.name.stem]
    for change in changes:
        change()
        names.append(stand_in.name.stem)
    assert len(set(names)) == len(changes) + 1
    monkeypatch.setattr(class_archive, "VERSION", version)
    assert stand_in.name.stem == names[-2], "the name depends on nothing else"


def test_the_name_ignores_fractions_of_seconds_which_the_layers_of_an_image_do_not_store(stand_in):
    jar = stand_in.folder / "spark" / "jars" / "spark-core_2.13-4.3.0.jar"
    os.utime(jar, ns=(0, 1_700_000_000_900_000_000))
    before = stand_in.name.stem
    os.utime(jar, ns=(0, 1_700_000_000_000_000_000))
    assert stand_in.name.stem == before


def test_the_name_depends_on_the_order_of_the_jars_because_the_class_path_has_this_order(stand_in, monkeypatch):
    jars = stand_in.folder / "spark" / "jars"
    for name in ("a.jar", "b.jar"):
        (jars / name).write_text("x")
        os.utime(jars / name, (1, 1))
    before = stand_in.name.stem
    entries = list(os.scandir(jars))
    monkeypatch.setattr(class_archive.os, "scandir", lambda _: reversed(entries))
    assert stand_in.name.stem != before


def test_no_archive_fits_if_the_java_or_the_jars_are_unknown_or_java_would_split_the_path(stand_in, tmp_path):
    assert fitting_archive(tmp_path / "a:b", stand_in.program, stand_in.environ) is None
    (stand_in.folder / "spark" / "jars").rename(stand_in.folder / "moved")
    assert fitting_archive(tmp_path, stand_in.program, stand_in.environ) is None


def test_options_name_the_archive_and_silence_only_class_data_sharing():
    assert java_options(Path("/c/x.jsa")) == "-XX:SharedArchiveFile=/c/x.jsa -Xlog:cds*=off"
    assert java_options(Path('/c d/"x.jsa')).startswith('"-XX:SharedArchiveFile=/c d/\\"x.jsa" ')


@pytest.mark.parametrize(
    "options",
    [
        "-Dx=1 -XX:SharedArchiveFile=/x.jsa",
        "-Xshare:off",
        "-XX:ArchiveClassesAtExit=/x",
        "-XX:-UseSharedSpaces",
        "-XX:+AutoCreateSharedArchive",
        "-XX:AOTCache=/x.aot",
    ],
)
def test_options_of_the_user_that_choose_an_archive_are_recognized(options):
    assert chooses_archive(f"-Xmx1g {options}")
    assert not chooses_archive("-XX:+UseZGC -Dpath=/Xshare/data")


def test_an_archive_is_made_once_with_a_name_that_has_its_size(stand_in):
    made = make_archive(stand_in.program, stand_in.environ)
    again = make_archive(stand_in.program, stand_in.environ)
    assert made.path == again.path == stand_in.name.find() and made.seconds is not None and again.seconds is None
    assert made.path.read_text() == "classes" and made.path.name.endswith("-7.jsa") and stand_in.runs == 1
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert sorted(path.name for path in made.path.parent.iterdir()) == sorted([made.path.name, LOCK_FILE])


@pytest.mark.parametrize("damage", ["truncated", "writable", "link"])
def test_an_incomplete_or_foreign_archive_is_not_used_and_is_made_again(stand_in, damage):
    archive = make_archive(stand_in.program, stand_in.environ).path
    if damage == "truncated":
        archive.write_text("class")
    elif damage == "writable":
        archive.chmod(0o666)
    else:
        archive.rename(archive.with_suffix(".moved"))
        archive.symlink_to(archive.with_suffix(".moved"))
    assert stand_in.name.find() is None
    assert make_archive(stand_in.program, stand_in.environ).seconds is not None
    assert stand_in.name.find() == archive and not archive.is_symlink()


@pytest.mark.slow
def test_two_commands_at_the_same_time_make_one_archive(stand_in):
    stand_in.set_program(Path(stand_in.program).read_text().replace("printf", "sleep 2\nprintf"))
    command = [sys.executable, "-m", "deltalite.cli", "warm-up", "--json", "--spark-submit", stand_in.program]
    environ = {**stand_in.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert reports[0]["path"] == reports[1]["path"] == str(stand_in.name.find())
    assert sorted(report["seconds"] is None for report in reports) == [False, True] and stand_in.runs == 1


def test_a_lazy_attempt_leaves_the_archive_to_the_process_that_makes_it(stand_in):
    folder = open_private_folder()
    (folder / LOCK_FILE).touch()
    with lock(folder / LOCK_FILE, fcntl.LOCK_EX):
        assert make_archive(stand_in.program, stand_in.environ, lazily=True) is None
    assert stand_in.runs == 0
    assert make_archive(stand_in.program, stand_in.environ, lazily=True) is not None


def test_a_failure_is_remembered_for_a_day_by_lazy_attempts_only(stand_in):
    working_program = Path(stand_in.program).read_text()
    stand_in.set_program(FAIL)
    with pytest.raises(InstallationError, match=r"exit code 1.*Cannot have non-empty directory in paths"):
        make_archive(stand_in.program, stand_in.environ)
    assert make_archive(stand_in.program, stand_in.environ, lazily=True) is None and stand_in.runs == 1
    now = time.time()
    assert "non-empty" in stand_in.name.recent_failure(now=now + 86_000)
    assert stand_in.name.recent_failure(now=now + 86_500) is None
    stand_in.set_program(working_program)
    assert make_archive(stand_in.program, stand_in.environ) is not None
    assert stand_in.name.recent_failure(now=now) is None


def test_a_configuration_folder_with_files_is_refused_before_a_job_starts(stand_in, tmp_path):
    conf = stand_in.folder / "spark" / "conf"
    conf.mkdir()
    assert make_archive(stand_in.program, stand_in.environ) is not None
    stand_in.name.find().unlink()
    (conf / "spark-defaults.conf").touch()
    with pytest.raises(InstallationError) as error_info:
        make_archive(stand_in.program, stand_in.environ)
    assert str(conf) in error_info.value.problem and "SPARK_CONF_DIR" in error_info.value.remedy
    assert stand_in.runs == 1
    (tmp_path / "empty").mkdir()
    assert make_archive(stand_in.program, {**stand_in.environ, "SPARK_CONF_DIR": str(tmp_path / "empty")})


def test_no_archive_is_made_in_a_folder_to_which_another_user_may_write(stand_in):
    private_folder_path().mkdir()
    private_folder_path().chmod(0o777)
    with pytest.raises(InstallationError, match="another user may write to"):
        make_archive(stand_in.program, stand_in.environ)
    assert stand_in.runs == 0


def test_the_training_job_omits_the_options_and_folders_of_the_caller(stand_in):
    stand_in.set_program('#!/bin/sh\nenv >"$SPARK_RUNS"\nprintf x >"${SPARK_SUBMIT_OPTS#*=}"\n')
    make_archive(
        stand_in.program,
        {**stand_in.environ, "SPARK_SUBMIT_OPTS": "-Xshare:off", "HADOOP_CONF_DIR": "/etc/hadoop", "KEPT": "1"},
    )
    variables = dict(line.split("=", 1) for line in Path(stand_in.environ["SPARK_RUNS"]).read_text().splitlines())
    assert "HADOOP_CONF_DIR" not in variables and "-Xshare" not in variables["SPARK_SUBMIT_OPTS"]
    assert variables["KEPT"] == "1" and variables["PYSPARK_PYTHON"] == sys.executable


def test_a_new_archive_replaces_archives_that_no_task_used_for_a_week(stand_in):
    folder = open_private_folder()
    unused, used = folder / "spark-classes-1-1.jsa", folder / "spark-classes-2-1.jsa"
    for file in (unused, used):
        file.write_text("x")
        os.utime(file, (time.time() - 8 * 86_400,) * 2)
    record_use(used)
    make_archive(stand_in.program, stand_in.environ)
    assert not unused.exists() and used.exists()


def test_an_unused_archive_that_is_removed_meanwhile_does_not_stop_the_making(stand_in, monkeypatch):
    folder = open_private_folder()
    removed, unused = folder / "spark-classes-1-1.jsa", folder / "spark-classes-2-1.jsa"
    unused.write_text("x")
    os.utime(unused, (time.time() - 8 * 86_400,) * 2)
    list_folder = Path.glob
    monkeypatch.setattr(Path, "glob", lambda path, pattern: [removed, *list_folder(path, pattern)])
    assert make_archive(stand_in.program, stand_in.environ).path.exists()
    assert not unused.exists()


def test_a_training_job_that_does_not_end_is_killed_with_its_children(stand_in, monkeypatch):
    monkeypatch.setattr(class_archive_making, "_TIMEOUT_SECONDS", 0.5)
    stand_in.set_program('#!/bin/sh\nsleep 600 &\necho $! >"$SPARK_RUNS"\nwait\n')
    with pytest.raises(InstallationError, match="did not end within"):
        make_archive(stand_in.program, stand_in.environ)
    child = int(Path(stand_in.environ["SPARK_RUNS"]).read_text())
    end = time.monotonic() + 10  # a killed process ends only when it gets processor time
    while _is_running(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_part_of_an_archive_is_not_used_after_its_jvm_was_killed(stand_in):
    stand_in.set_program('#!/bin/sh\nprintf part >"${SPARK_SUBMIT_OPTS#*=}"\nkill -9 $$\n')
    with pytest.raises(InstallationError, match="exit code -9"):
        make_archive(stand_in.program, stand_in.environ)
    assert stand_in.name.find() is None


def test_an_attempt_that_was_killed_counts_as_a_failure(stand_in, monkeypatch):
    def kill(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(class_archive_making, "_train", kill)
    with pytest.raises(KeyboardInterrupt):
        make_archive(stand_in.program, stand_in.environ)
    assert stand_in.name.recent_failure(now=time.time()) == "The last attempt did not end."
    assert make_archive(stand_in.program, stand_in.environ, lazily=True) is None


def test_the_reason_names_the_lines_of_the_jvm_or_else_the_last_lines():
    assert reason_in("INFO a\n[warning][cds] no room\nINFO b") == "[warning][cds] no room"
    assert reason_in("\n".join("abcdefg")) == "c | d | e | f | g"
    assert reason_in("") == "its output is empty"


@pytest.mark.parametrize(
    ("report", "problem"),
    [('printf "E: no rows" >"$problem_file"', "E: no rows"), ("", "the job ended early")],
    ids=["an error", "no report"],
)
def test_an_archive_of_a_failed_training_job_is_used_and_the_command_shows_the_problem(
    stand_in, monkeypatch, capsys, report, problem
):
    for name, value in stand_in.environ.items():
        monkeypatch.setenv(name, value)
    stand_in.set_program(Path(stand_in.program).read_text().replace(': >"$problem_file"', report))
    assert main(["warm-up", "--spark-submit", stand_in.program]) == 0
    assert f"The archive lacks classes, because its Spark job failed: {problem}\n" in capsys.readouterr().out
    assert stand_in.name.find() is not None


def test_the_command_shows_the_archive_and_a_failure_with_its_exit_code(stand_in, monkeypatch, capsys):
    for name, value in stand_in.environ.items():
        monkeypatch.setenv(name, value)
    arguments = ["warm-up", "--spark-submit", stand_in.program]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(f"Made the archive {stand_in.name.find()} (7 B) in ")
    assert main(arguments) == 0 and capsys.readouterr().out.startswith("The archive exists: ")
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"path": str(stand_in.name.find()), "sizeInBytes": 7, "seconds": None, "problem": None}
    stand_in.name.find().unlink()
    stand_in.set_program(FAIL)
    assert main([*arguments, "--json"]) == InstallationError.exit_code
    assert json.loads(capsys.readouterr().err)["error"] == "InstallationError"
