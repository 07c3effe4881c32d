"""The plan of a table that a request declares: the target of a new table, or the changes of an existing table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltalite.commands.common.order_columns import order_columns
from deltalite.commands.common.partitioning import check_same_partitioning, partition_columns
from deltalite.commands.common.write_target import (
    WriteTarget,
    altered_target,
    new_target_from_metadata,
    target_without_features,
)
from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.protocol import type_widening
from deltalite.protocol.actions import DomainMetadata, Metadata
from deltalite.protocol.altering import altered_schema, changed_columns, is_filled, newly_required_columns
from deltalite.protocol.clustering import (
    MAX_CLUSTERING_COLUMNS,
    check_keeps_clustering,
    clustering_domain,
    column_text,
    has_clustering_columns,
)
from deltalite.protocol.feature_dropping import droppable_features, enabling_properties
from deltalite.protocol.feature_enabling import RequestedProtocol, protocol_for, requested_protocol, stored_properties
from deltalite.protocol.features import supported_features
from deltalite.protocol.properties import (
    CONSTRAINT_PREFIX,
    MAINTAINED_KEYS,
    check_manifests_are_possible,
    check_new_properties,
    is_constraint,
    is_declared_or_custom,
    is_protocol_property,
)
from deltalite.protocol.row_tracking import COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from deltalite.protocol.schema import StructType, schema_to_json
from deltalite.requests import TableRequest
from deltalite.snapshot import Snapshot

_MAINTAINED_PROPERTIES = MAINTAINED_KEYS | {COMMIT_VERSION_COLUMN, ROW_ID_COLUMN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The difference between the table and the declaration.

    - `constraint_keys`: the properties of new or changed constraints. The table's rows must satisfy them.
    - `required_columns`: the columns that become NOT NULL.
    - `adds_filled_column`: the table fills a new column (`is_filled`), so the table must not have rows.
    - `dropped_features`: the features of the table that the request drops.

    The other fields are for the table's history.
    """

    added_columns: tuple[str, ...] = ()
    changed_columns: tuple[str, ...] = ()
    properties: Mapping[str, str | None]
    constraint_keys: frozenset[str]
    required_columns: frozenset[str] = frozenset()
    adds_filled_column: bool = False
    dropped_features: tuple[str, ...] = ()
    description: str | None = None
    cluster_by: tuple[str, ...] | None = None

    @property
    def has_new_rules(self) -> bool:
        """Whether the rows of the table must be checked against new rules."""
        return bool(self.constraint_keys or self.required_columns)

    @property
    def depends_on_rows(self) -> bool:
        """Whether rows that another writer adds meanwhile could make the change invalid."""
        return self.has_new_rules or self.adds_filled_column

    @property
    def parameters(self) -> dict[str, Any]:
        """The operation parameters of the commit, for all values that change."""
        parameters = {
            "addedColumns": list(self.added_columns),
            "changedColumns": list(self.changed_columns),
            "properties": dict(self.properties),
            "description": self.description,
            "droppedFeatures": list(self.dropped_features),
            "clusterBy": None if self.cluster_by is None else json.dumps(list(self.cluster_by)),
        }
        return {k: value if isinstance(value, str) else json.dumps(value) for k, value in parameters.items() if value}

    @property
    def metrics(self) -> dict[str, int]:
        """The numbers of added columns, changed columns and changed properties."""
        return {
            "numAddedColumns": len(self.added_columns),
            "numChangedColumns": len(self.changed_columns),
            "numChangedProperties": len(self.properties),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The table after the task, and its difference from the table before.

    `domains` has the domain of the clustering columns if these columns change.
    """

    target: WriteTarget
    changes: Changes
    domains: tuple[DomainMetadata, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether a commit is needed."""
        target = self.target
        return target.changed_metadata is not None or target.changed_protocol is not None or bool(self.domains)


def check_properties(request: TableRequest) -> None:
    """Check the properties that the request sets or unsets.

    Raises:
        InvalidRequestError: a property is unknown or invalid, or is in the wrong parameter. Or `properties` enables a
            feature that `drop_features` names. Or `unset_properties` names a feature, a version of the protocol, or a
            property that writers maintain.
    """
    check_new_properties(request.properties)
    dropped_feature_keys = enabling_properties(droppable_features(request.drop_features))
    for key, text in request.properties.items():
        if key in dropped_feature_keys and text.lower() != "false":
            raise InvalidRequestError(
                f"properties sets {key}, which enables a feature that drop_features names.",
                remedy="Remove the property, or the feature from drop_features.",
            )
    for key in (*request.properties, *request.unset_properties):
        if is_constraint(key):
            raise InvalidRequestError(
                f"The property {key} is a constraint.",
                remedy="Write it in `constraints` or `drop_constraints`, with the name "
                f"'{key[len(CONSTRAINT_PREFIX) :]}'.",
            )
    for key in request.unset_properties:
        if is_protocol_property(key):
            raise InvalidRequestError(
                f"unset_properties names {key}: a task cannot remove a feature or lower a version of the protocol.",
                remedy="Leave the property out. `drop_features` removes a feature.",
            )
        if key in _MAINTAINED_PROPERTIES:
            raise InvalidRequestError(
                f"unset_properties names {key}, which writers maintain.", remedy="Leave the property out."
            )


def plan_new_table(request: TableRequest, declaration: StructType | None, root: str, *, now_ms: int) -> Plan:
    """Return the plan that creates the table. `declaration` is the schema of the request.

    Raises:
        TableNotFoundError: the request has no schema.
        InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError: the declaration is wrong, or this release
            cannot write such a table.
    """
    if declaration is None:
        raise TableNotFoundError(
            f"{root} is not a Delta table, and the task declares no schema.",
            remedy="Give `schema` to create the table, or correct the address.",
        )
    _check_partition_columns(request, declaration)
    configuration = declared_properties(request, {})
    metadata = Metadata(
        id=str(uuid.uuid4()),
        description=request.description,
        schema_string=schema_to_json(declaration),
        partition_columns=partition_columns(declaration, request.partition_by or ()),
        configuration=configuration,
        created_time_ms=now_ms,
    )
    check_manifests_are_possible(configuration)
    target = new_target_from_metadata(metadata, _requested_protocol(request))
    target, cluster_by = _with_clustering(request, target, {})
    changes = Changes(
        properties=configuration,
        constraint_keys=frozenset(filter(is_constraint, configuration)),
        cluster_by=cluster_by,
    )
    return Plan(target=target, changes=changes, domains=_clustering_domains(target) if cluster_by else ())


def plan_change(request: TableRequest, declaration: StructType | None, base: Snapshot) -> Plan:
    """Return the plan that alters the table. `declaration` is the schema of the request.

    Raises:
        SchemaMismatchError: the table cannot get the declared schema, or `partition_by` has other columns than the
            table.
        InvalidRequestError, UnsupportedFeatureError: a property is wrong, or this release cannot write such a table.
    """
    check_same_partitioning(request.partition_by, base)
    _check_unset_properties(request, base)
    configuration = declared_properties(request, base.configuration)
    check_manifests_are_possible(configuration)
    requested = _requested_protocol(request)
    metadata = replace(
        base.metadata,
        configuration=configuration,
        description=base.metadata.description if request.description is None else request.description,
    )
    schema = base.schema
    if declaration is not None:
        widens = type_widening.is_enabled(protocol_for(metadata, base.protocol, requested), metadata)
        schema = altered_schema(base.schema, declaration, widens=widens, has_rows=base.files.num_rows > 0)
    if schema != base.schema:
        metadata = replace(metadata, schema_string=schema_to_json(schema))
    old_properties = base.configuration
    all_keys = {*old_properties, *configuration}
    different_keys = sorted(key for key in all_keys if old_properties.get(key) != configuration.get(key))
    target = altered_target(base, metadata, requested, keeps_clustering=request.cluster_by is None)
    old_features = supported_features(base.protocol)
    target, cluster_by = _with_clustering(request, target, base.domains if "clustering" in old_features else {})
    dropped_features = droppable_features(request.drop_features) & old_features
    if dropped_features:
        target = target_without_features(target, dropped_features)
    return Plan(
        target=target,
        domains=() if cluster_by is None else _clustering_domains(target),
        changes=Changes(
            added_columns=tuple(f.name for f in schema if base.schema.find(f.name) is None),
            changed_columns=changed_columns(base.schema, schema),
            properties={key: configuration.get(key) for key in different_keys},
            constraint_keys=frozenset(k for k in different_keys if is_constraint(k) and k in configuration),
            required_columns=newly_required_columns(base.schema, schema),
            adds_filled_column=any(is_filled(f) for f in schema if base.schema.find(f.name) is None),
            dropped_features=tuple(sorted(dropped_features)),
            description=None if metadata.description == base.metadata.description else metadata.description,
            cluster_by=cluster_by,
        ),
    )


def _requested_protocol(request: TableRequest) -> RequestedProtocol:
    requested = requested_protocol(request.properties)
    return replace(requested, features=requested.features | {"clustering"}) if request.cluster_by else requested


def _with_clustering(
    request: TableRequest, target: WriteTarget, old_domains: Mapping[str, DomainMetadata]
) -> tuple[WriteTarget, tuple[str, ...] | None]:
    """Return the target with the clustering columns of the request, and the names of these columns if they change.

    Without `cluster_by`, return the same target and None. If `old_domains` name the same columns, return None in place
    of the names, because the commit needs no new domain.
    """
    if request.cluster_by is None:
        return target, None
    columns = order_columns(
        request.cluster_by, target.table, parameter="cluster_by", max_columns=MAX_CLUSTERING_COLUMNS
    )
    clustering = tuple(column.physical for column in columns)
    if has_clustering_columns(old_domains, clustering):
        return replace(target, clustering=clustering), None
    check_keeps_clustering(clustering, target.table)
    return replace(target, clustering=clustering), tuple(column_text(column.logical) for column in columns)


def _clustering_domains(target: WriteTarget) -> tuple[DomainMetadata, ...]:
    return (clustering_domain(target.clustering),)


def declared_properties(request: TableRequest, old_properties: Mapping[str, str]) -> dict[str, str]:
    """Return the table's properties after the request, including the properties of constraints."""
    # Delta ignores the case of a constraint's name. A new constraint gets a name in lower case, as in delta-spark.
    old_constraint_keys = {key[len(CONSTRAINT_PREFIX) :].lower(): key for key in old_properties if is_constraint(key)}
    constraints = {
        old_constraint_keys.get(name.lower(), f"{CONSTRAINT_PREFIX}{name.lower()}"): condition
        for name, condition in request.constraints.items()
    }
    dropped_constraint_keys = (old_constraint_keys.get(name.lower()) for name in request.drop_constraints)
    unset_keys = {*request.unset_properties, *dropped_constraint_keys}
    unset_keys |= enabling_properties(droppable_features(request.drop_features))
    remaining_properties = {key: text for key, text in old_properties.items() if key not in unset_keys}
    return remaining_properties | stored_properties(request.properties) | constraints


def _check_partition_columns(request: TableRequest, declaration: StructType) -> None:
    missing_name = next((name for name in request.partition_by or () if declaration.find(name) is None), None)
    if missing_name is not None:
        raise InvalidRequestError(
            f"partition_by names '{missing_name}', but `schema` has only the columns {', '.join(declaration.names)}.",
            remedy="Correct the name, or declare the column.",
        )


def _check_unset_properties(request: TableRequest, base: Snapshot) -> None:
    unknown_keys = (
        key for key in request.unset_properties if key not in base.configuration and not is_declared_or_custom(key)
    )
    key = next(unknown_keys, None)
    if key is not None:
        raise InvalidRequestError(
            f"unset_properties names {key}, which is not a property of the table or of Delta.",
            remedy="Correct the spelling, including upper and lower case.",
        )
