"""Tables are maintained with bounded parallelism, the largest gain first. The steps here need no Spark."""

from __future__ import annotations

from threading import Barrier, Event, Lock

import deltalake
import pyarrow as pa
import pytest

from deltalite.commands.maintain import maintain, one_table
from deltalite.requests import MaintainRequest
from deltalite.results import OperationResult

PARALLELISM = 2
# The alphabetical order differs from the order of the gain.
FILE_COUNTS = {"a": 3, "b": 5, "c": 2, "d": 4}


class OptimizeStandIn:
    """A stand-in for the optimize command.

    Each call waits until `parallelism` calls run. Then it waits for a moment, so that an extra call could begin.
    """

    def __init__(self, parallelism: int) -> None:
        self.addresses: list[str] = []
        self.running = self.most_running = 0
        self._parallelism = parallelism
        self._lock, self._all_run, self._too_many_run = Lock(), Barrier(parallelism), Event()

    def __call__(self, _session, request) -> OperationResult:
        with self._lock:
            self.addresses.append(request.table)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            if self.running > self._parallelism:
                self._too_many_run.set()
        self._all_run.wait(timeout=20)  # a lower parallelism breaks the barrier
        self._too_many_run.wait(timeout=0.3)  # lets a higher parallelism start one more
        with self._lock:
            self.running -= 1
        return OperationResult(
            table=request.table, operation="OPTIMIZE", version=9, read_version=8, committed=True, skipped=False,
            app_id=None, txn_version=None, timestamp=1,
        )  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    """The addresses of tables with small files."""
    for name, count in FILE_COUNTS.items():
        for number in range(count):
            deltalake.write_deltalake(str(tmp_path / name), pa.table({"id": [number]}), mode="append")
    return tuple(f"file://{tmp_path / name}" for name in FILE_COUNTS)


@pytest.mark.parametrize("parallelism", [1, PARALLELISM])
def test_as_many_tables_as_the_parallelism_are_maintained_at_once(spark, tables, monkeypatch, parallelism):
    optimizes = OptimizeStandIn(parallelism)
    monkeypatch.setattr(one_table, "optimize", optimizes)
    request = MaintainRequest(tables=tables, parallelism=parallelism, min_small_files=2, checkpoint=False, vacuum=False)
    result = maintain(spark, request)
    assert result.metrics["numOptimizedTables"] == len(tables)
    assert (optimizes.most_running, optimizes.running) == (parallelism, 0)
    if parallelism == 1:
        assert [address.rpartition("/")[2] for address in optimizes.addresses] == ["b", "d", "a", "c"]
