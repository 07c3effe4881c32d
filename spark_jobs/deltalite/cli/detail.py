"""`deltalite detail`: the details of a version, with the fields of Spark's DESCRIBE DETAIL.

JSON is one object: `version` and Spark's fields. Times are ISO 8601.
"""

from __future__ import annotations

import argparse

from deltalite.cli.command import Arguments, Command, open_table
from deltalite.cli.output import Output, sized


def _add_arguments(_parser: argparse.ArgumentParser) -> None:
    return None


def _run(args: Arguments, out: Output) -> int:
    table = open_table(args)
    detail = {"version": table.version, **table.detail()}
    if out.as_json:
        out.record(detail)
        return 0
    shown = {**detail, "sizeInBytes": f"{detail['sizeInBytes']} ({sized(detail['sizeInBytes'])})"}
    shown["partitionColumns"] = ", ".join(detail["partitionColumns"])
    shown["tableFeatures"] = ", ".join(detail["tableFeatures"])
    properties = shown.pop("properties")
    for moment in ("createdAt", "lastModified"):
        shown[moment] = f"{detail[moment]:%Y-%m-%d %H:%M:%S}Z" if detail[moment] is not None else None
    out.facts({name: "" if value is None else value for name, value in shown.items()})
    if properties:
        out.line()
        out.line("properties", style="bold")
        out.facts({f"  {key}": value for key, value in sorted(properties.items())})
    return 0


COMMAND = Command(
    name="detail",
    summary="name, place, size, properties and protocol",
    description=__doc__,
    at_version=True,
    add_arguments=_add_arguments,
    run=_run,
)
