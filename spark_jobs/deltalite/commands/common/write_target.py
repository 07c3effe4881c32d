"""The table after a write: its metadata and protocol.

A new table gets them from the rows and the request. An existing table keeps them, unless the request asks for new
columns or a new schema. The functions check every rule on the schema before a row is written. They write nothing, and
read at most the list of files in the base snapshot.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from deltalite.change_feed import reserved_column
from deltalite.commands.common.partitioning import (
    check_has_partition_columns,
    check_same_partitioning,
    partition_columns,
)
from deltalite.errors import InvalidRequestError, SchemaMismatchError
from deltalite.protocol import iceberg_compat, type_widening
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.clustering import check_keeps_clustering, clustering_columns
from deltalite.protocol.column_ids import with_column_ids
from deltalite.protocol.column_mapping import TableSchema, table_schema_of
from deltalite.protocol.column_rules import ColumnRules, column_rules
from deltalite.protocol.feature_dropping import without_features
from deltalite.protocol.feature_enabling import (
    RequestedProtocol,
    is_satisfied,
    protocol_for,
    requested_protocol,
    stored_properties,
)
from deltalite.protocol.features import check_writable, is_in_force, supported_features
from deltalite.protocol.identity_columns import IdentityColumn, with_high_water_marks
from deltalite.protocol.properties import (
    check_manifests_are_possible,
    check_new_properties,
    is_protocol_property,
)
from deltalite.protocol.row_tracking import RowIdColumns, row_id_columns, with_row_id_columns
from deltalite.protocol.schema import StructType, parse_schema, schema_to_json
from deltalite.protocol.schema_evolution import evolved_schema, new_table_schema
from deltalite.requests import WriteRequest
from deltalite.snapshot import Snapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table after the write.

    `changed_metadata` and `changed_protocol` are the actions that the commit has to carry, or None without a change.
    `clustering` has the physical paths of the clustering columns.
    """

    table: TableSchema
    metadata: Metadata
    protocol: Protocol
    changed_metadata: Metadata | None
    changed_protocol: Protocol | None
    clustering: tuple[tuple[str, ...], ...] = ()

    @property
    def rules(self) -> ColumnRules:
        """The rules of the table's columns."""
        return column_rules(self.protocol, self.metadata)

    @property
    def row_ids(self) -> RowIdColumns | None:
        """The columns of data files that preserve row ids, None if row tracking is not enabled."""
        return row_id_columns(self.protocol, self.metadata)

    @property
    def copied_table(self) -> TableSchema:
        """The columns of files with copied rows: those of the table, and those that preserve row ids."""
        row_ids = self.row_ids
        return self.table if row_ids is None else self.table.with_fields(row_ids.fields)

    def with_high_water_marks(self, columns: Sequence[IdentityColumn], count: int) -> WriteTarget:
        """Return the target with the high water marks after `count` new rows in these IDENTITY columns."""
        if not columns or not count:
            return self
        schema = with_high_water_marks(self.schema, {column.name: column.last_of_next(count) for column in columns})
        metadata = replace(self.metadata, schema_string=schema_to_json(schema))
        return replace(self, metadata=metadata, changed_metadata=metadata, table=replace(self.table, logical=schema))

    @property
    def schema(self) -> StructType:
        """The columns by their logical names."""
        return self.table.logical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns in the table's spelling."""
        return self.metadata.partition_columns

    def null_partition_columns(self, columns: Collection[str]) -> list[str]:
        """Return the partition columns that are NULL in a new row with values for only these `columns`."""
        columns_with_value = {name.lower() for name in (*self.rules.filled_columns, *columns)}
        return [name for name in self.partition_columns if name.lower() not in columns_with_value]


def write_target(request: WriteRequest, base: Snapshot | None, row_schema: StructType, *, now_ms: int) -> WriteTarget:
    """Return the target of a write request.

    Raises:
        SchemaMismatchError: the rows do not fit the table.
        InvalidRequestError: partitioning or properties are wrong.
        UnsupportedFeatureError: this release cannot write a table with these features or properties.
    """
    check_new_properties(request.properties)
    if not row_schema.fields:
        raise InvalidRequestError(
            "There are no columns to write: the query is not a SELECT, or it selects nothing.",
            remedy="Correct `query`.",
        )
    if base is None:
        return new_target(row_schema, request.partition_by or (), request.properties, now_ms=now_ms)
    check_writable(base.protocol, base.metadata)
    compute_metadata = _overwritten_metadata if request.overwrite_schema else _evolved_metadata
    metadata = compute_metadata(request, base, row_schema)
    requested = requested_protocol(request.properties)  # raises for a wrong value, even if nothing changes
    if metadata == base.metadata and not request.overwrite_schema:
        return unchanged_target(base)
    protocol = protocol_for(metadata, base.protocol, requested if request.overwrite_schema else None)
    return _changed_target(base, metadata, protocol, keeps_files=not request.overwrite_schema)


def new_target(
    row_schema: StructType,
    partitioned_by: Sequence[str],
    properties: Mapping[str, str],
    *,
    now_ms: int,
    has_files: bool = False,
) -> WriteTarget:
    """Return the target of a new table.

    `has_files` says that the data files of the table exist already, with the logical column names.

    Raises:
        SchemaMismatchError, InvalidRequestError, UnsupportedFeatureError: as `write_target`.
    """
    schema = new_table_schema(row_schema)
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_to_json(schema),
        partition_columns=partition_columns(schema, partitioned_by),
        configuration=stored_properties(properties),
        created_time_ms=now_ms,
    )
    return new_target_from_metadata(metadata, requested_protocol(properties), has_files=has_files)


def new_target_from_metadata(
    metadata: Metadata, requested: RequestedProtocol, *, has_files: bool = False
) -> WriteTarget:
    """Return the target of a new table with this metadata. Add column ids and the columns of row ids to the metadata.

    Raises:
        InvalidRequestError, UnsupportedFeatureError: as `write_target`.
    """
    metadata = iceberg_compat.with_column_mapping(metadata)
    schema = parse_schema(metadata.schema_string)
    file_schema = TableSchema(logical=schema) if has_files else None
    metadata = with_column_ids(metadata, file_schema, keeps_files=has_files)
    protocol = protocol_for(metadata, requested=requested)
    metadata = with_row_id_columns(protocol, metadata)
    check_writable(protocol, metadata)
    if has_files and (compat := iceberg_compat.newly_active_version(None, protocol, metadata)) is not None:
        iceberg_compat.refuse_existing_files(compat)
    return _target(metadata, protocol, changed_metadata=metadata, changed_protocol=protocol)


def unchanged_target(base: Snapshot) -> WriteTarget:
    """Return the target of an existing table without changes."""
    return _target(
        base.metadata, base.protocol, changed_metadata=None, changed_protocol=None, clustering=_clustering(base)
    )


def altered_target(
    base: Snapshot, metadata: Metadata, requested: RequestedProtocol, *, keeps_clustering: bool = True
) -> WriteTarget:
    """Return the target of a table that keeps its files and gets this metadata and the requested protocol.

    The caller must ensure that the columns of the existing files fit the new schema. With `keeps_clustering`, refuse a
    schema without the clustering columns. If it is false, the target has no clustering columns, and the caller sets
    them.

    Raises:
        InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError: as `write_target`.
    """
    check_writable(base.protocol, base.metadata)
    protocol = protocol_for(metadata, base.protocol, requested)
    return _changed_target(base, metadata, protocol, keeps_files=True, keeps_clustering=keeps_clustering)


def target_without_features(target: WriteTarget, features: Collection[str]) -> WriteTarget:
    """Return the target without table features. The caller makes sure that no data file of the table needs them."""
    protocol, metadata = without_features(target.protocol, target.metadata, features)
    return _target(
        metadata, protocol, changed_metadata=metadata, changed_protocol=protocol, clustering=target.clustering
    )


def evolved_target(base: Snapshot, schema: StructType) -> WriteTarget:
    """Return the target of a table that keeps its files and gets this schema.

    The caller must ensure that the columns of the existing files fit the schema.

    Raises:
        UnsupportedFeatureError: this release cannot write the table with this schema.
    """
    if schema == base.schema:
        return unchanged_target(base)
    metadata = replace(base.metadata, schema_string=schema_to_json(schema))
    return _changed_target(base, metadata, protocol_for(metadata, base.protocol), keeps_files=True)


def _changed_target(
    base: Snapshot, metadata: Metadata, protocol: Protocol, *, keeps_files: bool, keeps_clustering: bool = True
) -> WriteTarget:
    """Complete and check the changed metadata of an existing table, and return the target."""
    if keeps_files:
        rules = column_rules(base.protocol, base.metadata)
        remaining_conditions = column_rules(base.protocol, metadata).conditions
        rules = replace(rules, conditions=tuple(c for c in rules.conditions if c in remaining_conditions))
        type_widening.check_no_rule_uses_widened_column(base.schema, parse_schema(metadata.schema_string), rules)
    # The new protocol can activate a property that had no effect before. The property may then change the metadata.
    has_new_protocol = protocol != base.protocol
    if has_new_protocol or metadata != base.metadata:
        metadata = with_column_ids(metadata, base.table_schema, keeps_files=keeps_files)
        metadata = replace(metadata, schema_string=_schema_string(base, parse_schema(metadata.schema_string)))
        metadata = with_row_id_columns(protocol, metadata)
    check_writable(protocol, metadata)
    old_compat = iceberg_compat.active_iceberg_compat(base.protocol, base.metadata)
    compat = iceberg_compat.newly_active_version(old_compat, protocol, metadata)
    if compat is not None and keeps_files and base.files.num_rows:
        iceberg_compat.refuse_existing_files(compat)
    iceberg_compat.check_partition_columns(base.metadata, protocol, metadata)
    target = _target(
        metadata,
        protocol,
        changed_metadata=metadata if has_new_protocol or metadata != base.metadata else None,
        changed_protocol=protocol if has_new_protocol else None,
        clustering=_clustering(base) if keeps_clustering else (),
    )
    if keeps_clustering:
        check_keeps_clustering(target.clustering, target.table)
    return target


def _clustering(base: Snapshot) -> tuple[tuple[str, ...], ...]:
    return clustering_columns(base.domains) if "clustering" in supported_features(base.protocol) else ()


def _target(
    metadata: Metadata,
    protocol: Protocol,
    *,
    changed_metadata: Metadata | None,
    changed_protocol: Protocol | None,
    clustering: tuple[tuple[str, ...], ...] = (),
) -> WriteTarget:
    if is_in_force("changeDataFeed", protocol, metadata):
        _check_no_reserved_columns(parse_schema(metadata.schema_string))
    iceberg_compat.check_iceberg_compat(protocol, metadata)
    return WriteTarget(
        table=table_schema_of(protocol, metadata),
        metadata=metadata,
        protocol=protocol,
        changed_metadata=changed_metadata,
        changed_protocol=changed_protocol,
        clustering=clustering,
    )


def _check_no_reserved_columns(schema: StructType) -> None:
    name = reserved_column(schema)
    if name is not None:
        raise SchemaMismatchError(
            f"The column name '{name}' is reserved, because the table has a change data feed.",
            remedy="Give the column another name, or set delta.enableChangeDataFeed to false.",
        )


def _overwritten_metadata(request: WriteRequest, base: Snapshot, row_schema: StructType) -> Metadata:
    """Return the metadata after a write with `overwrite_schema`. Such a write also sets the request's properties."""
    schema = new_table_schema(row_schema)
    configuration = {**base.configuration, **stored_properties(request.properties)}
    check_manifests_are_possible(configuration)
    partitioned_by = base.partition_columns if request.partition_by is None else request.partition_by
    if request.partition_by is None:
        check_has_partition_columns(schema, base)
    metadata = replace(
        base.metadata,
        schema_string=_schema_string(base, schema),
        partition_columns=partition_columns(schema, partitioned_by),
        configuration=configuration,
    )
    return iceberg_compat.with_column_mapping(metadata)


def _evolved_metadata(request: WriteRequest, base: Snapshot, row_schema: StructType) -> Metadata:
    """Return the metadata after a write that keeps the schema, or evolves it with `merge_schema`."""
    check_same_partitioning(request.partition_by, base)
    _warn_of_ignored_properties(request, base)
    rules = column_rules(base.protocol, base.metadata)
    # A write without a data change only rearranges rows. These rows keep their IDENTITY values.
    if request.data_change:
        _check_no_identity_values(rules.identities, row_schema)
    schema = evolved_schema(
        base.schema,
        row_schema,
        merge_schema=request.merge_schema,
        widens=type_widening.is_enabled(base.protocol, base.metadata),
        computed=rules.filled_columns,
    )
    return replace(base.metadata, schema_string=_schema_string(base, schema))


def _check_no_identity_values(columns: Sequence[IdentityColumn], row_schema: StructType) -> None:
    for column in columns:
        if not column.allows_explicit and row_schema.find(column.name) is not None:
            raise SchemaMismatchError(
                f"The data has values for the column '{column.name}', which is GENERATED ALWAYS AS IDENTITY.",
                remedy="Leave the column out in `query`. The table generates its values.",
            )


def _schema_string(base: Snapshot, schema: StructType) -> str:
    """Return the schema as JSON. For an unchanged schema, return the text that its writer stored."""
    return base.metadata.schema_string if schema == base.schema else schema_to_json(schema)


def _warn_of_ignored_properties(request: WriteRequest, base: Snapshot) -> None:
    """Log a warning if the table has other values for properties of the request. The write does not set them."""
    ignored_names = [k for k, v in stored_properties(request.properties).items() if base.configuration.get(k) != v]
    if not is_satisfied(base.protocol, requested_protocol(request.properties)):
        ignored_names += [k for k in request.properties if is_protocol_property(k)]
    if ignored_names:
        _log.warning(
            "Ignoring the properties %s, which have other values in the table: a write sets properties only if it "
            "creates the table or has overwrite_schema=True.",
            ", ".join(sorted(ignored_names)),
        )
