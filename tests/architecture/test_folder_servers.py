"""The servers of a folder run until the last test of the folder has ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from tests.support.folder_servers import is_last_in_folder, pytest_runtest_teardown, pytest_unconfigure, servers_of


def make_session(*paths):
    """A stand-in for a session of pytest, with a test in each of these files."""
    session = SimpleNamespace()
    session.config = SimpleNamespace(stash={})
    session.items = [SimpleNamespace(path=Path(path), session=session, config=session.config) for path in paths]
    return session


def end(item):
    """End a test: pytest runs its teardown."""
    teardown = pytest_runtest_teardown(item)
    next(teardown)
    for _ in teardown:
        raise AssertionError("the hook has one step")


def test_the_last_test_of_a_folder_is_the_last_one_in_any_of_its_files():
    items = make_session("system/a.py", "system/a.py", "unit/a.py", "system/b.py", "unit/b.py").items
    assert [is_last_in_folder(item, items) for item in items] == [False, False, False, True, True]


def test_the_servers_of_a_folder_stop_after_its_last_test():
    session = make_session("system/a.py", "system/b.py", "unit/a.py")
    stopped = []
    servers_of(Path("system"), session.config).callback(stopped.append, "first")
    servers_of(Path("system"), session.config).callback(stopped.append, "second")
    stopped_after_each_test = []
    for item in session.items:
        end(item)
        stopped_after_each_test.append(list(stopped))
    assert stopped_after_each_test == [[], ["second", "first"], ["second", "first"]]


def test_the_end_of_pytest_stops_servers_whose_folder_has_tests_left():
    config, stopped = make_session("system/a.py").config, []
    servers_of(Path("system"), config).callback(stopped.append, "server")
    pytest_unconfigure(config)
    assert stopped == ["server"]
