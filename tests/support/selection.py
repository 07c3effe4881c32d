"""The selection of tests for each `make` target, and their distribution over the workers of pytest-xdist.

| target | tests |
|---|---|
| `make quick` | all that need neither Spark nor a server and are not marked `slow` |
| `make smoke` | all that are marked `smoke` |
| `make test` | all without the marker `campaign`; of a test with the marker `sample`, the cases that have its values |
| `make campaign` | all |

This module sets the markers `spark` and `server` by fixtures and folders, so that no file can lack them. It sets the
marker `slow` for whole folders. The scheduler gives a folder whose files share an expensive fixture to one worker.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).resolve().parents[1]
# Folders of tests that use Spark, or start servers, through other fixtures than `spark`.
SPARK_FOLDERS = frozenset({"interop", "clusters"})
SERVER_FOLDERS = frozenset({"storage", "system", "clusters"})
# Fixtures that start a server. A browser opens the pages of `served_page`.
SERVER_FIXTURES = frozenset({"served_page"})
# Folders of tests that kill processes at each of many steps, or wait for jobs in a cluster.
SLOW_FOLDERS = frozenset({"faults", "clusters"})
# Folders of files that share a session fixture, which takes long to set up: a whole Airflow, runs of example DAGs,
# sessions of other engines, clusters, and the servers of storages.
SHARED_FOLDERS = ("tests/clusters/", "tests/examples/", "tests/interop/", "tests/storage/", "tests/system/")

# How many of the collected tests `--campaign` would add.
CAMPAIGN_ONLY = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign", action="store_true", help="also run the tests that are marked `campaign`")
    parser.addoption("--generated-code", action="store_true", help="make Spark compile its queries, as in production")


def pytest_configure(config: pytest.Config) -> None:
    """Remove Hypothesis's deadline for each example: no test measures time, and machines may be busy.

    Without `--campaign`, a test runs a third of the examples that it states, or a third of Hypothesis's default.
    """
    factor = 1 if config.getoption("--campaign") else 1 / 3
    os.environ.setdefault("DELTALITE_FUZZ", str(factor))
    settings.register_profile(
        "deltalite",
        deadline=None,
        max_examples=int(settings.default.max_examples * factor),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("deltalite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set the markers `spark`, `server` and `slow`. Without `--campaign`, deselect the tests of the campaign."""
    folders: dict[Path, str] = {}
    for item in items:
        if (folder := folders.get(item.path)) is None:
            folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
            folders[item.path] = folder
        fixtures = getattr(item, "fixturenames", ())
        if folder in SPARK_FOLDERS or "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
        if folder in SERVER_FOLDERS or not SERVER_FIXTURES.isdisjoint(fixtures):
            item.add_marker(pytest.mark.server)
        if folder in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
    if config.getoption("--campaign"):
        return
    campaign_only = [item for item in items if item.get_closest_marker("campaign") or _is_outside_sample(item)]
    if campaign_only:
        config.hook.pytest_deselected(items=campaign_only)
        deselected = set(campaign_only)
        items[:] = [item for item in items if item not in deselected]
    config.stash[CAMPAIGN_ONLY] = len(campaign_only)
    if hasattr(config, "workeroutput"):
        config.workeroutput["campaign_only"] = len(campaign_only)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Switch the garbage collector off during the collection, and let it ignore the modules and tests afterwards.

    The collector would scan all of them again and again, and free nothing.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the count from a worker. All workers collect the same tests. The main process collects none."""
    del error
    node.config.stash[CAMPAIGN_ONLY] = getattr(node, "workeroutput", {}).get("campaign_only", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many tests the campaign would add."""
    if count := config.stash.get(CAMPAIGN_ONLY, 0):
        terminalreporter.write_line(f"The campaign also runs {count} more of these tests.")


def _is_outside_sample(item: pytest.Item) -> bool:
    """Whether the test has the marker `sample`, and no parameter with one of the marker's values."""
    sample, parameters = item.get_closest_marker("sample"), getattr(item, "callspec", None)
    if sample is None or parameters is None:
        return False
    return not any(value in sample.args for value in parameters.params.values())


class FileOrFolderScheduling(LoadFileScheduling):
    """Gives all tests of a file, or of a folder in `SHARED_FOLDERS`, to the same worker."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in SHARED_FOLDERS if nodeid.startswith(folder)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Replace the scheduler of xdist for `--dist loadfile`."""
    return FileOrFolderScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def sampled(values: Sequence[object], sample: Collection[object]) -> list[object]:
    """All values for `parametrize`; values outside the sample run in the campaign only."""
    return [value if value in sample else pytest.param(value, marks=pytest.mark.campaign) for value in values]


def sample_every(count: int, cases: Sequence[tuple[object, ...]]) -> list[object]:
    """All cases for `parametrize`: `make test` runs the first of every `count` cases, the campaign runs all."""
    campaign = pytest.mark.campaign
    return [pytest.param(*case, marks=campaign) if index % count else case for index, case in enumerate(cases)]


def cover(features: dict[str, Collection[str]], cost: dict[str, int]) -> list[str]:
    """A few names that together have every feature.

    Each step chooses the name that adds the most new features; among equals, the name with the lowest cost. The choice
    depends on the arguments alone, so that all workers make the same choice.

    Args:
        features: the features of each name.
        cost: the cost of each name.
    """
    missing_features = {feature for name_features in features.values() for feature in name_features}
    chosen: list[str] = []
    while missing_features:
        name = min(features, key=lambda name: (-len(missing_features.intersection(features[name])), cost[name], name))
        chosen.append(name)
        missing_features.difference_update(features[name])
    return chosen
