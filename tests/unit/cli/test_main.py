"""The exit codes of `deltalite`, its error lines, its end after a closed pipe, and its progress output."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite.cli import main as main_module
from deltalite.cli.exit_codes import BROKEN_PIPE, EXIT_CODES, FOUND_ERRORS, INTERRUPTED
from deltalite.cli.main import main
from deltalite.cli.progress import show_progress
from deltalite.errors import DeltaLiteError, error_class_for
from deltalite.table import DeltaTable
from tests.support.valid_table import create_valid_table

SCRIPT = Path(sys.executable).parent / "deltalite"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return create_valid_table(tmp_path_factory.mktemp("valid") / "t").root


def test_wrong_usage_exits_with_2_and_shows_the_usage(capsys):
    assert main(["nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
    assert main([]) == 2 and main(["diff", "/t", "one", "two"]) == 2


def test_the_exit_code_for_findings_differs_from_those_of_errors():
    assert error_class_for(FOUND_ERRORS) is None and FOUND_ERRORS not in (0, 1, 2)
    assert (INTERRUPTED, BROKEN_PIPE) == (130, 141)


def test_help_and_documentation_show_the_same_exit_codes(capsys):
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out.split("exit codes:")[1]
    codes_in_help = [tuple(re.split(r"\s{2,}", line.strip(), maxsplit=1)) for line in help_text.strip().splitlines()]
    page = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = page.split("| exit code | meaning |")[1].split("\n\n")[0]
    rows = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table.strip().splitlines()[1:]]
    documented_codes = [(code, meaning.replace("`", "")) for code, meaning in rows]
    assert codes_in_help == list(EXIT_CODES) == documented_codes


def test_every_error_class_is_in_the_documented_range_of_exit_codes():
    (lowest,) = [int(code.split()[0]) for code, _ in EXIT_CODES if code.endswith("and up")]
    assert error_class_for(lowest) is DeltaLiteError
    assert [code for code, _ in EXIT_CODES if code.isdigit() and error_class_for(int(code))] == []


def test_an_interrupt_ends_without_a_traceback(table, monkeypatch, capsys):
    monkeypatch.setattr(DeltaTable, "history", fail_with(KeyboardInterrupt()))
    assert main(["history", table]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_unexpected_error_is_one_line_and_an_environment_variable_shows_its_traceback(table, monkeypatch, capsys):
    monkeypatch.setattr(DeltaTable, "history", fail_with(ZeroDivisionError("what")))
    monkeypatch.delenv("DELTALITE_TRACEBACK", raising=False)
    assert main(["history", table]) == 1
    line = capsys.readouterr().err
    assert line.startswith("deltalite: ZeroDivisionError: what. ") and line.count("\n") == 1
    monkeypatch.setenv("DELTALITE_TRACEBACK", "1")
    assert main(["history", table]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_several_lines_is_printed_as_one_line(table, monkeypatch, capsys):
    monkeypatch.setattr(DeltaTable, "history", fail_with(DeltaLiteError("one\ntwo\x1b[0m.", remedy="Three.")))
    assert main(["history", table]) == DeltaLiteError.exit_code
    assert capsys.readouterr().err == "deltalite: DeltaLiteError: one\\ntwo\\x1b[0m. Three.\n"


def fail_with(error):
    def fail(*args, **options):
        raise error

    return fail


def run_script(*argv, **env):
    """Run the installed console script in a separate process."""
    return subprocess.run([SCRIPT, *argv], capture_output=True, text=True, env={**os.environ, **env}, check=False)


@pytest.mark.slow
def test_the_console_script_runs_and_ends_with_the_code_of_the_error(table, tmp_path):
    process = run_script("history", table, "--json", "-n", "1")
    assert (process.returncode, process.stderr, process.stdout.count("\n")) == (0, "", 1)
    process = run_script("head", str(tmp_path / "nowhere"))
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (31, "", 1)
    assert process.stderr.startswith("deltalite: TableNotFoundError: ")


@pytest.mark.slow
def test_ascii_output_has_escaped_json_and_readable_text(tmp_path):
    table = create_valid_table(tmp_path / "ü").root
    json_output = run_script("detail", table, "--json", PYTHONIOENCODING="ascii")
    assert (json_output.returncode, json.loads(json_output.stdout)["location"]) == (0, table)
    text_output = run_script("head", table, PYTHONIOENCODING="ascii")
    assert text_output.returncode == 0 and "2026-01-01" in text_output.stdout
    process = run_script("head", f"{table}/ö", PYTHONIOENCODING="ascii")
    assert process.returncode == 31 and "\\xf6" in process.stderr


@pytest.mark.slow
def test_a_closed_pipe_ends_the_command_without_an_error(table):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen([SCRIPT, "files", table, "--json"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")


def test_the_cli_imports_neither_spark_nor_airflow():
    code = "import sys, deltalite.cli.main; print({'pyspark', 'py4j', 'airflow', 'pandas'} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_only_on_a_terminal():
    text_file = io.StringIO()
    with show_progress(text_file) as report:
        report("commits", 1, 2)
    assert text_file.getvalue() == ""
    terminal = Terminal()
    with show_progress(terminal) as report:
        report("commits", 1, 2)
        report("data files", 7, None)
    assert "data files" in terminal.getvalue()


def test_progress_goes_to_standard_error(table, monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(main_module.sys, "stderr", terminal)
    assert main(["verify", table, "--json"]) == 0
    assert "checksums" in terminal.getvalue()
    assert capsys.readouterr().out.count("\n") == 1
