"""`deltalite warm-up`: makes an archive of Spark's classes, with which Spark jobs of this machine start faster.

The command runs a small Spark job in local mode, for about half a minute. It does nothing if the archive exists. Run it
as the user of the worker, for example when you build the image of a worker. Run it again after an upgrade of Spark,
Java or this package. Tasks whose driver runs on this machine use the archive, unless `[deltalite] class_archive` is
`off`.

JSON is one object: `path`, `sizeInBytes`, `seconds` and `problem`. `seconds` is the time to make the archive, null if
the archive existed before. `problem` is the error of the Spark job, null without an error. After an error, the archive
lacks classes. With `--lazy`, all fields are null if another process of this user makes an archive, or if making it
failed in the last 24 hours.
"""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from deltalite.cli.command import Arguments, Command
from deltalite.cli.output import Output
from deltalite.installation.class_archive_making import make_archive
from deltalite.installation.spark import SPARK_SUBMIT
from deltalite.sizes import format_bytes

_LOWEST_PRIORITY = 19
_FIRST_TO_BE_KILLED = "1000"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark-submit",
        default=SPARK_SUBMIT,
        metavar="PROGRAM",
        help="the program that starts the jobs, if it is not spark-submit on the PATH",
    )
    parser.add_argument(
        "--lazy",
        action="store_true",
        help="run at the lowest priority, and do nothing if another process of this user makes an archive or if "
        "making it failed in the last 24 hours",
    )


def _run(args: Arguments, out: Output) -> int:
    if args.lazy:
        _yield_to_tasks()
    archive = make_archive(args.spark_submit, os.environ, lazily=args.lazy)
    if out.as_json:
        out.record(
            {
                "path": None if archive is None else str(archive.path),
                "sizeInBytes": None if archive is None else archive.size_bytes,
                "seconds": None if archive is None or archive.seconds is None else round(archive.seconds, 1),
                "problem": None if archive is None else archive.problem,
            }
        )
    elif archive is None:
        out.line("Made no archive: another process of this user makes one, or making it failed in the last 24 hours.")
    elif archive.seconds is None:
        out.line(f"The archive exists: {archive.path} ({format_bytes(archive.size_bytes)})")
    else:
        size = format_bytes(archive.size_bytes)
        out.line(f"Made the archive {archive.path} ({size}) in {archive.seconds:.0f} s")
        if archive.problem is not None:
            out.line(f"The archive lacks classes, because its Spark job failed: {archive.problem}")
            out.line("Correct the cause, delete the archive, and run the command again.")
    return 0


def _yield_to_tasks() -> None:
    """Run at the lowest priority, and be the first process that the kernel kills if memory runs out."""
    os.nice(_LOWEST_PRIORITY)
    with suppress(OSError):  # the system is not Linux
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_BE_KILLED)


COMMAND = Command(
    name="warm-up",
    summary="make an archive of Spark's classes, so that small tasks start faster",
    description=__doc__,
    takes_version=False,
    takes_table=False,
    add_arguments=_add_arguments,
    run=_run,
)
