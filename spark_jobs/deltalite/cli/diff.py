"""`deltalite diff`: the differences between two versions: files, rows, schema, properties, protocol.

JSON is one object:

- `fromVersion`, `toVersion` and `isEmpty` (no differences)
- `files`: counts and bytes; with `--files` also the paths
- `rows`: counts; null if a file has no statistics
- `schema`, `properties`, `protocol` and `metadata`: lists of changes with `kind` (added, removed, renamed, changed),
  `subject`, `aspect`, `before` and `after`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from deltalite.cli.command import Arguments, Command, open_table_store
from deltalite.cli.output import Column, Output
from deltalite.inspection.diff import Change, TableDiff, diff
from deltalite.protocol.paths import decode_path
from deltalite.sizes import format_bytes
from deltalite.snapshot import Snapshot

_COLUMNS = (Column("what"), Column("how"), Column("before", folds=True), Column("after", folds=True))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("from_version", type=int, metavar="V1", help="the first version")
    parser.add_argument(
        "to_version", type=int, metavar="V2", help="the second version, which is compared with the first"
    )
    parser.add_argument("--files", action="store_true", help="list the files that differ")


def _run(args: Arguments, out: Output) -> int:
    store = open_table_store(args)
    table_diff = diff(Snapshot.load(store, args.from_version), Snapshot.load(store, args.to_version))
    if out.as_json:
        out.record(_record(table_diff, with_files=args.files))
    else:
        _show(out, table_diff, with_files=args.files)
    return 0


def _record(table_diff: TableDiff, *, with_files: bool) -> dict[str, Any]:
    files, rows = table_diff.files, table_diff.rows
    counts: dict[str, Any] = {
        "added": files.added.num_rows,
        "removed": files.removed.num_rows,
        "kept": files.kept,
        "deletionVectorsChanged": files.vectors_changed,
        "addedBytes": files.added_bytes,
        "removedBytes": files.removed_bytes,
    }
    if with_files:
        counts |= {"addedPaths": _paths(files.added), "removedPaths": _paths(files.removed)}
    return {
        "fromVersion": table_diff.from_version,
        "toVersion": table_diff.to_version,
        "isEmpty": table_diff.is_empty,
        "files": counts,
        "rows": {
            "before": rows.before,
            "after": rows.after,
            "inAddedFiles": rows.in_added_files,
            "inRemovedFiles": rows.in_removed_files,
        },
        "schema": _changes(table_diff.schema),
        "properties": _changes(table_diff.properties),
        "protocol": _changes(table_diff.protocol),
        "metadata": _changes(table_diff.metadata),
    }


def _changes(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [
        {"kind": c.kind.value, "subject": c.subject, "aspect": c.aspect, "before": c.before, "after": c.after}
        for c in changes
    ]


def _paths(files: pa.Table) -> list[str]:
    return sorted(decode_path(path) for path in files["path"].to_pylist())


def _show(out: Output, table_diff: TableDiff, *, with_files: bool) -> None:
    files, rows = table_diff.files, table_diff.rows
    out.line(f"version {table_diff.from_version} -> version {table_diff.to_version}", style="bold")
    out.line()
    if table_diff.is_empty:
        out.line("no differences")
        return
    vectors = f"; {files.vectors_changed} changed only their deletion vectors" if files.vectors_changed else ""
    out.facts(
        {
            "files": f"+{files.added.num_rows} -{files.removed.num_rows}, {files.kept} kept{vectors}",
            "bytes": f"+{format_bytes(files.added_bytes)} -{format_bytes(files.removed_bytes)}",
            "rows": f"{_format_count(rows.before)} -> {_format_count(rows.after)}"
            f" (+{_format_count(rows.in_added_files)} -{_format_count(rows.in_removed_files)} in these files)",
        }
    )
    for title in ("schema", "properties", "protocol", "metadata"):
        changes: tuple[Change, ...] = getattr(table_diff, title)
        if changes:
            out.line()
            out.line(title, style="bold")
            out.table(_COLUMNS, map(_row, changes))
    if with_files:
        out.line()
        for sign, listed_files in (("-", files.removed), ("+", files.added)):
            for path in _paths(listed_files):
                out.line(f"{sign} {path}")


def _row(change: Change) -> tuple[Any, ...]:
    kind = change.kind.value if change.aspect is None else f"{change.aspect} {change.kind.value}"
    before, after = ("" if value is None else value for value in (change.before, change.after))
    return change.subject, kind, before, after


def _format_count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)


COMMAND = Command(
    name="diff",
    summary="the differences between two versions: files, rows, schema, properties, protocol",
    description=__doc__,
    takes_version=False,
    add_arguments=_add_arguments,
    run=_run,
)
