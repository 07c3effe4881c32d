"""`deltalite detail`: the details of a version, with the fields of Spark's DESCRIBE DETAIL.

JSON is one object: `version` and Spark's fields. Times are ISO 8601.
"""

from __future__ import annotations

from deltalite.cli.command import Arguments, Command, add_no_arguments, open_table
from deltalite.cli.output import Output
from deltalite.cli.values import time_cell
from deltalite.sizes import format_bytes


def _run(args: Arguments, out: Output) -> int:
    table = open_table(args)
    detail = {"version": table.version, **table.detail()}
    if out.as_json:
        out.record(detail)
        return 0
    fields = {**detail, "sizeInBytes": f"{detail['sizeInBytes']} ({format_bytes(detail['sizeInBytes'])})"}
    fields["partitionColumns"] = ", ".join(detail["partitionColumns"])
    fields["tableFeatures"] = ", ".join(detail["tableFeatures"])
    properties = fields.pop("properties")
    for name in ("createdAt", "lastModified"):
        fields[name] = time_cell(detail[name])
    out.facts({name: "" if value is None else value for name, value in fields.items()})
    if properties:
        out.line()
        out.line("properties", style="bold")
        out.facts({f"  {key}": value for key, value in sorted(properties.items())})
    return 0


COMMAND = Command(
    name="detail",
    summary="name, location, size, properties and protocol",
    description=__doc__,
    takes_version=True,
    add_arguments=add_no_arguments,
    run=_run,
)
