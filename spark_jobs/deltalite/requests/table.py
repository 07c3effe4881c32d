"""The request of a task that creates or alters a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from deltalite.requests.base import CommitRequest, Fault, faults_of_rerun_replace, repeated_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest(CommitRequest):
    """A request to create or alter `table`, so that it gets the declared schema, properties and other parts.

    `schema` is Spark DDL. `unset_properties`, `drop_constraints` and `drop_features` name parts that the
    table must not have. `reset_flows` sets the source offsets of flows; None makes a flow load the snapshot again.
    See `DeltaTableOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "table"

    schema: str | None = None
    partition_by: tuple[str, ...] | None = None
    cluster_by: tuple[str, ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    unset_properties: tuple[str, ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    drop_constraints: tuple[str, ...] = ()
    drop_features: tuple[str, ...] = ()
    description: str | None = None
    reset_flows: Mapping[str, int | None] = field(default_factory=dict)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        collections = (
            self.properties,
            self.unset_properties,
            self.constraints,
            self.drop_constraints,
            self.drop_features,
            self.reset_flows,
        )
        single_values = (self.schema, self.partition_by, self.cluster_by, self.description)
        if not any(collections) and all(value is None for value in single_values):
            yield "The request declares nothing about the table.", "Give `schema`, `properties` or another parameter."
        if self.schema is not None and not self.schema.strip():
            yield "schema is empty.", "Write it as DDL, such as 'id BIGINT NOT NULL, day DATE'."
        for name, values in self._unique_names().items():
            if not all(isinstance(value, str) for value in values):
                yield f"{name} is {values!r}, but its items must be texts.", "Give names."
                return
            repeated = repeated_name(values)
            if repeated is not None:
                yield f"{name} names '{repeated}' twice (upper and lower case are the same).", "Name it once."
        for name, condition in self.constraints.items():
            if not name.strip() or not condition.strip():
                yield f"The constraint '{name}' has no name or no condition.", "Give both."
        yield from _reset_faults(self.reset_flows)
        if self.partition_by and self.cluster_by:
            yield "The request has both partition_by and cluster_by.", "Keep one of them."
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to apply the request again, or 'skip'.",
        )

    def _unique_names(self) -> dict[str, list[str]]:
        """Return the names that must not repeat, by the parameter or the two parameters that contain them."""
        return {
            "partition_by": list(self.partition_by or ()),
            "cluster_by": list(self.cluster_by or ()),
            "constraints and drop_constraints": [*self.constraints, *self.drop_constraints],
            "drop_features": list(self.drop_features),
            "properties and unset_properties": [*self.properties, *self.unset_properties],
        }

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(TableRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        list_fields = ("partition_by", "cluster_by", "unset_properties", "drop_constraints", "drop_features")
        return body | {name: tuple(body[name]) for name in list_fields if body.get(name) is not None}


def _reset_faults(resets: Mapping[str, int | None]) -> Iterator[Fault]:
    for name, version in resets.items():
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            yield f"reset_flows sets the flow '{name}' to {version!r}.", "Give an integer, or None."
        elif version is not None and version < 0:
            yield f"reset_flows sets the flow '{name}' to {version}, which is negative.", "Give 0 or more, or None."
