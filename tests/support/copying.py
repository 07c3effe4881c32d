"""Functions for tests that load files once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalite.commands.copy import copy
from deltalite.loaded_files.manifest import current_manifest_number, read_manifest
from deltalite.loaded_files.record import read_loaded_files
from deltalite.requests import CopyRequest, OnRerun, RunIdentity, Source
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult

SOME_TIME_S = 1_760_000_000


def write_file(folder: Path, name: str, text: str, *, second: int = 0) -> Path:
    """Write a source file that is `second` seconds younger than the oldest one."""
    return write_bytes(folder, name, text.encode(), second=second)


def write_bytes(folder: Path, name: str, content: bytes, *, second: int = 0) -> Path:
    """Write a source file with any content, as `write_file` does."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (SOME_TIME_S + second, SOME_TIME_S + second))
    return file


def copy_files(
    spark: SparkSession,
    table: Path | str,
    folder: Path | str,
    file_format: str = "csv",
    *,
    run: str | None = None,
    generation: int = 0,
    on_rerun: str = "skip",
    schema: str | None = None,
    source_options: dict[str, str] | None = None,
    **options: Any,
) -> OperationResult:
    """Load the new files of a folder. CSV files have a header by default; `options` are those of the request."""
    default_options = {"header": "true"} if file_format == "csv" else {}
    source = Source(
        format=file_format, path=str(folder), schema=schema,
        options=default_options if source_options is None else source_options,
    )  # fmt: skip
    if run is not None:
        options["identity"] = RunIdentity(app_id=run, txn_version=generation, on_rerun=OnRerun(on_rerun))
    return copy(spark, CopyRequest(table=str(table), source=source, **options))


def loaded_names(table: Path | str) -> list[str]:
    """The sorted base names of the files in the record of the newest version. A repeated name was loaded twice."""
    store = LocalLogStore(str(table))
    manifest = read_manifest(store, current_manifest_number(Snapshot.load(store).transactions))
    addresses = [a for files in read_loaded_files(store, manifest) for a in files["address"].to_pylist()]
    return sorted(address.rpartition("/")[2] for address in addresses)
