"""The protocol, metadata and domains of a table after a restore to an older version.

- The older version determines the schema, the partition columns, the properties and the clustering columns.
- These values are never lowered: the protocol, the highest column id, the high water marks of identity columns, and the
  version before which checkpoints are protected.
- The table id, the start of in-commit timestamps and the other domains stay as they are.

Protocol: Protocol Evolution, Column Mapping, Identity Columns, In-Commit Timestamps; delta-spark: RestoreTableCommand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol
from deltalite.protocol.clustering import (
    CLUSTERING_DOMAIN,
    clustering_columns,
    clustering_domain,
    has_clustering_columns,
)
from deltalite.protocol.column_ids import HIGHEST_COLUMN_ID
from deltalite.protocol.column_mapping import PHYSICAL_NAME
from deltalite.protocol.feature_enabling import merged_protocol, protocol_for
from deltalite.protocol.features import check_writable, is_in_force, supported_features
from deltalite.protocol.iceberg_compat import check_iceberg_compat, check_partition_columns
from deltalite.protocol.identity_columns import identity_columns, with_high_water_marks
from deltalite.protocol.properties import (
    CHECKPOINT_PROTECTION_VERSION,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
)
from deltalite.protocol.schema import StructField, StructType, parse_schema, schema_to_json

_NEVER_LOWERED = {prop.key: prop for prop in (HIGHEST_COLUMN_ID, CHECKPOINT_PROTECTION_VERSION)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The protocol, metadata and domains of a version: its state without the files."""

    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRules:
    """The rules after a restore. `domains` are only the domains that the restore must write."""

    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...]


def restored_rules(current: Rules, target: Rules) -> RestoredRules:
    """Return the rules after a restore from `current` to `target`.

    Raises:
        UnsupportedFeatureError: this release cannot write one of the two versions, or the restored table.
        InvalidRequestError, SchemaMismatchError: the restored table would break the rules of its Iceberg compatibility.
        CorruptLogError: an identity column of one version, or the clustering of the older version, is malformed.
    """
    for rules in (current, target):
        check_writable(rules.protocol, rules.metadata)
    metadata = _restored_metadata(current, target)
    protocol = protocol_for(metadata, merged_protocol(current.protocol, target.protocol))
    metadata = _with_current_timestamp_start(current, protocol, metadata)
    check_writable(protocol, metadata)
    check_iceberg_compat(protocol, metadata)
    check_partition_columns(current.metadata, protocol, metadata)
    return RestoredRules(protocol=protocol, metadata=metadata, domains=_domains(current, target, protocol))


def _restored_metadata(current: Rules, target: Rules) -> Metadata:
    """Return the older metadata with the current table id, and the greater of each number that is never lowered."""
    current_metadata, old = current.metadata, target.metadata
    greatest = {
        key: max(prop.of(current_metadata.configuration), prop.of(old.configuration))
        for key, prop in _NEVER_LOWERED.items()
    }
    configuration = dict(old.configuration) | {key: str(number) for key, number in greatest.items() if number}
    old_schema = schema = parse_schema(old.schema_string)
    if _supports_identity_columns(current) and _supports_identity_columns(target):
        schema = _with_current_marks(old_schema, parse_schema(current_metadata.schema_string))
    schema_string = old.schema_string if schema == old_schema else schema_to_json(schema)
    return replace(old, id=current_metadata.id, schema_string=schema_string, configuration=configuration)


def _supports_identity_columns(rules: Rules) -> bool:
    return "identityColumns" in supported_features(rules.protocol)


def _with_current_marks(old: StructType, current: StructType) -> StructType:
    """Return the older schema with the current high water marks, so that no identity column repeats a value."""
    current_columns = {_physical_name(f): c for f in current for c in identity_columns(StructType((f,)))}
    marks = {}
    for field in old:
        for column in identity_columns(StructType((field,))):
            old_and_current = (column, current_columns.get(_physical_name(field), column))
            column_marks = [c.high_water_mark for c in old_and_current if c.high_water_mark is not None]
            if column_marks:
                marks[column.name] = max(column_marks) if column.step > 0 else min(column_marks)
    return with_high_water_marks(old, marks)


def _physical_name(field: StructField) -> str:
    """Return the physical name in lower case, or the logical name if the column has no physical name yet."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _with_current_timestamp_start(current: Rules, protocol: Protocol, metadata: Metadata) -> Metadata:
    """Return the metadata with the current start of in-commit timestamps, if in-commit timestamps stay enabled.

    If the restore enables in-commit timestamps, its commit records the start.
    """
    feature = "inCommitTimestamp"
    if not (is_in_force(feature, protocol, metadata) and is_in_force(feature, current.protocol, current.metadata)):
        return metadata
    start_keys = (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP)
    start = {key: text for key, text in current.metadata.configuration.items() if key in start_keys}
    other_properties = {key: text for key, text in metadata.configuration.items() if key not in start_keys}
    return replace(metadata, configuration=other_properties | start)


def _domains(current: Rules, target: Rules, protocol: Protocol) -> tuple[DomainMetadata, ...]:
    """Return the domain with the clustering columns of the older version, if the current columns differ.

    The domain of an unclustered older version has no columns. delta-spark does the same.
    """
    if "clustering" not in supported_features(protocol):
        return ()
    target_columns = clustering_columns(target.domains) if "clustering" in supported_features(target.protocol) else ()
    if has_clustering_columns(current.domains, target_columns):
        return ()
    return (target.domains[CLUSTERING_DOMAIN] if target_columns else clustering_domain(()),)
