"""Shared parts of the fuzz tests: seeds that other engines wrote, and the rule for calls on a damaged seed.

A seed is the log and the deletion vectors of a golden table, in memory. Data files stay in their folder, so a run costs
milliseconds. `value_or_library_error` checks the rule of all fuzz tests: a call returns a value, or raises an error of
the library with a remedy. A call that raises another exception, or hangs, fails the test.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import traceback
from functools import cache
from typing import Any

from hypothesis import HealthCheck, settings

from deltalite.errors import DeltaLiteError
from deltalite.protocol.paths import canonical_path
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.support.golden import GOLDEN

SEEDS = (
    "delta-golden/multi-part-checkpoint", "delta-golden/v2-checkpoint-json", "delta-golden/v2-checkpoint-parquet",
    "delta-kernel-rs/app-txn-checkpoint", "delta-kernel-rs/v2-classic-parquet-struct-stats-only",
    "delta-kernel-rs/v2-json-sidecars-struct-stats-only", "derived/partitioned-table-with-dv-large",
    "derived/dv-inline", "derived/table-with-dv-small", "delta-golden/data-reader-timestamp_ntz-id-mode",
    "gen-deltalake/log_compaction_after_checkpoint", "gen-deltalake/log_compaction_all", "trino/deltalake/checksum",
    "gen-deltalake/partition_special_strings", "delta-rs/cdf-table", "delta-kernel-rs/crc-full",
    "delta-golden/basic-with-inserts-deletes-checkpoint", "dat/multi_partitioned_2",
)  # fmt: skip
# `make campaign` sets this factor. With 50, each test runs fifty times as many examples as it states. Without
# `--campaign`, `tests/support/selection.py` sets it.
_FACTOR = float(os.environ.get("DELTALITE_FUZZ", "1"))
_HANGS_AFTER_SECONDS = 60


def examples(count):
    """Hypothesis settings for `count` examples, multiplied by the factor of the campaign."""
    return settings(max_examples=scaled(count), deadline=None, suppress_health_check=list(HealthCheck))


def scaled(count: int) -> int:
    """`count` multiplied by the factor of the campaign, at least 1."""
    return max(1, int(count * _FACTOR))


class Overlay(MemoryLogStore):
    """A store with the log and some other files in memory. It reads all other files from the table's folder.

    It never reads the log of the folder: a log file that is not in memory is missing.
    """

    def __init__(self, folder, files) -> None:
        super().__init__()
        self._folder_store = LocalLogStore(str(folder))
        times = itertools.count(1_700_000_000_000)
        self.files = {name: (data, next(times)) for name, data in sorted(files.items())}

    def open(self, name):
        if name in self.files or name.startswith("_delta_log/"):
            return super().open(name)
        return self._folder_store.open(name)


@cache
def _seed(name):
    folder = GOLDEN / "tables" / name
    paths = [*(folder / "_delta_log").rglob("*"), *folder.rglob("*.bin")]
    return {
        f.relative_to(folder).as_posix(): f.read_bytes() for f in paths if f.is_file() and not f.name.startswith(".")
    }


def seed_files(name):
    """The files of a seed by name, as a dictionary that the caller may change."""
    return dict(_seed(name))


def store_of(name, files=None):
    """The store of a seed. With `files`, the store has these files in memory instead of those of the seed."""
    return Overlay(GOLDEN / "tables" / name, _seed(name) if files is None else files)


def value_or_library_error(call):
    """Run `call`; returns its value, or the error of the library that it raised.

    Raises `AssertionError` if the call hangs or raises another exception.
    """
    outcome: list[Any] = []

    def run():
        try:
            outcome.append(call())
        except DeltaLiteError as error:
            outcome.append(error)
        except BaseException as error:  # noqa: BLE001  `value_or_library_error` raises it again
            outcome.append(_UnexpectedError(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_HANGS_AFTER_SECONDS)
    if thread.is_alive():
        stack = "".join(traceback.format_stack(sys._current_frames()[thread.ident]))
        raise AssertionError(f"still running after {_HANGS_AFTER_SECONDS} s:\n{stack}")
    [result] = outcome
    unexpected = result.error if isinstance(result, _UnexpectedError) else None
    if unexpected is not None:
        error_text = f"{type(unexpected).__name__}: {unexpected!s:.300}"
        raise AssertionError(f"not an error of the library: {error_text}") from unexpected
    if isinstance(result, DeltaLiteError):
        assert result.problem and result.remedy
    return result


class _UnexpectedError:
    """An exception that is not an error of the library."""

    def __init__(self, error) -> None:
        self.error = error


def state_of(snapshot) -> dict[str, Any]:
    """The state that the library reads, in the form of the states that `log_oracle.readings` returns."""
    files = {}
    for row in snapshot.files.to_pylist():
        vector = row["deletionVector"]
        key = (
            canonical_path(row["path"]),
            vector and tuple(vector[k] for k in ("storageType", "pathOrInlineDv", "offset")),
        )
        assert key not in files, f"the snapshot has the file {key} twice"
        files[key] = {k: row[k] for k in ("size", "modificationTime")} | {
            "partitionValues": dict(row["partitionValues"] or ())
        }
    protocol, metadata = snapshot.protocol, snapshot.metadata
    return {
        "protocol": [
            protocol.min_reader_version,
            protocol.min_writer_version,
            sorted(protocol.reader_features or ()),
            sorted(protocol.writer_features or ()),
        ],
        "metadata": [
            metadata.id,
            metadata.schema_string,
            list(metadata.partition_columns),
            metadata.name,
            dict(metadata.configuration),
        ],
        "txns": {t.app_id: t.version for t in snapshot._log.transactions.values()},
        "domains": {d.domain: d.configuration for d in snapshot.domains.values()},
        "files": files,
    }
