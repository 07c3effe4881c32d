"""`deltalite verify`: checks the whole log of a table, and compares it with the data files and their footers.

The exit code is 3 if there is an error, and 0 if there are at most warnings. JSON is one object:

- `table`, `newestVersion`, `ok`, `errors` and `warnings`
- `rebuildable`: the versions that the log can rebuild, as a list of ranges `[first, last]`, both inclusive
- `readable`: the rebuildable versions with readable data files, as ranges
- `checked`: the number of checked commits, files and so on
- `counts`: the number of findings of each kind
- `findings`: at most 1000 of each kind, with `severity`, `kind`, `file`, `versions` (as ranges) and `message`

`inspection/findings.py` lists the kinds.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from deltalite.cli.command import Arguments, Command, open_table_store
from deltalite.cli.exit_codes import FOUND_ERRORS
from deltalite.cli.output import Output
from deltalite.cli.progress import show_progress
from deltalite.inspection.findings import Finding, Severity
from deltalite.inspection.report import VerifyReport
from deltalite.inspection.verify import verify
from deltalite.inspection.versions import format_ranges
from deltalite.sizes import counted, format_bytes


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-footers",
        action="store_true",
        help="do not open data files; check only their existence, size and partition values (faster)",
    )


def _run(args: Arguments, out: Output) -> int:
    with show_progress(sys.stderr) as progress:
        report = verify(open_table_store(args), with_footers=not args.no_footers, progress=progress)
    if out.as_json:
        out.record(_record(report))
    else:
        _show(out, report)
    return FOUND_ERRORS if report.has_errors else 0


def _record(report: VerifyReport) -> dict[str, Any]:
    checked = asdict(report.checked)
    checked["deletionVectors"] = checked.pop("deletion_vectors")
    return {
        "table": report.root,
        "newestVersion": report.newest_version,
        "ok": not report.has_errors,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "rebuildable": report.rebuildable,
        "readable": report.readable,
        "checked": checked,
        "counts": {kind.value: count for kind, count in sorted(report.counts.items())},
        "findings": [
            {
                "severity": finding.kind.severity.value,
                "kind": finding.kind.value,
                "file": finding.file,
                "versions": finding.versions,
                "message": finding.message,
            }
            for finding in report.findings
        ],
    }


def _show(out: Output, report: VerifyReport) -> None:
    checked = report.checked
    counts_and_nouns = [
        (checked.commits, "commits"),
        (checked.checkpoints, "checkpoints"),
        (checked.compactions, "compactions"),
        (checked.checksums, "checksums"),
        (checked.files, f"files ({format_bytes(checked.bytes)})"),
        (checked.footers, "footers"),
        (checked.deletion_vectors, "deletion vectors"),
    ]
    readable = format_ranges(report.readable)
    if report.readable != report.rebuildable:
        readable += f" (the log can rebuild {format_ranges(report.rebuildable)})"
    out.facts(
        {
            "table": report.root,
            "newest version": report.newest_version,
            "readable versions": readable,
            "checked": ", ".join(f"{count} {noun}" for count, noun in counts_and_nouns if count),
        }
    )
    out.line()
    if not report.findings:
        out.line("no findings", style="green")
        return
    for finding in report.findings:
        out.line(_headline(finding), style="bold red" if finding.kind.severity is Severity.ERROR else "bold yellow")
        out.line(f"  {finding.message}")
    out.line()
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    hidden_count = sum(report.counts.values()) - len(report.findings)
    note = f"; {hidden_count} of them not shown" if hidden_count else ""
    out.line(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}{note}", style="bold")


def _headline(finding: Finding) -> str:
    """Format the first line of a finding: `error wrong-size, versions 3-5: part-0.parquet`."""
    is_one_version = len(finding.versions) == 1 and finding.versions[0][0] == finding.versions[0][1]
    noun = "version" if is_one_version else "versions"
    versions = f", {noun} {format_ranges(finding.versions)}" if finding.versions else ""
    file = f": {finding.file}" if finding.file is not None else ""
    return f"{finding.kind.severity.value} {finding.kind.value}{versions}{file}"


COMMAND = Command(
    name="verify",
    summary="errors in the log and the files, and the readable versions",
    description=__doc__,
    takes_version=False,
    add_arguments=_add_arguments,
    run=_run,
)
