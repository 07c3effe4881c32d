"""The request of a convert task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from deltalite.requests.base import CommitRequest, Fault, faults_of_rerun_replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest(CommitRequest):
    """A request to convert the folder of Parquet files at `table` to a Delta table, in place.

    `partition_schema` lists the columns of the `column=value` folders in order, with types: `day DATE, id INT`.
    See `DeltaConvertOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "convert"

    partition_schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        if self.partition_schema is not None and not self.partition_schema.strip():
            yield "partition_schema is empty.", "Write it as 'day DATE, country STRING', or leave it out."
        constraint = next((key for key in self.properties if key.lower().startswith("delta.constraints.")), None)
        if constraint is not None:
            yield (
                f"The property {constraint} is a constraint on rows, and a conversion does not read rows to check it.",
                "Convert without it. Then add it with the `constraints` of DeltaTableOperator, which checks the rows.",
            )
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Leave on_rerun out: a second conversion does not change the table.",
        )
