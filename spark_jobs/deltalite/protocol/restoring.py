"""What rules hold in a table that goes back to an older version of itself.

Schema, partitioning and properties are those of the older version. What only ever grows does not go back: the protocol,
the highest id of a column, the last value of an identity column; nor does the table's id, or since when commits carry
their time. Of the domains only clustering goes back, as the schema does that it speaks of. Pure: values in, values out.
Protocol: Protocol Evolution, Column Mapping, Identity Columns, In-Commit Timestamps; delta-spark: RestoreTableCommand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol
from deltalite.protocol.clustering import CLUSTERING_DOMAIN, clustering_columns
from deltalite.protocol.column_ids import HIGHEST_COLUMN_ID
from deltalite.protocol.column_mapping import PHYSICAL_NAME
from deltalite.protocol.feature_enabling import merged_protocol, protocol_for
from deltalite.protocol.features import check_writable, is_in_force, supported_features
from deltalite.protocol.identity_columns import identity_columns, with_marks
from deltalite.protocol.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION
from deltalite.protocol.schema import StructField, StructType, parse_schema, schema_to_json

_UNCLUSTERED = json.dumps({"clusteringColumns": [], "domainName": CLUSTERING_DOMAIN}, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a version says of the table, beside its files."""

    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRules:
    """What holds after the restore; of the domains those that have to be written."""

    protocol: Protocol
    metadata: Metadata
    domains: tuple[DomainMetadata, ...]


def restored_rules(current: Rules, target: Rules) -> RestoredRules:
    """The rules of a table that goes from `current` back to `target`.

    Raises:
        UnsupportedFeatureError: one of both asks of a writer what this release does not know.
        CorruptLogError: an identity column, or the clustering, is malformed.
    """
    for rules in (current, target):
        check_writable(rules.protocol, rules.metadata)
    metadata = _never_lowered(current, target)
    protocol = protocol_for(metadata, merged_protocol(current.protocol, target.protocol))
    metadata = _timed(current, protocol, metadata)
    check_writable(protocol, metadata)
    return RestoredRules(protocol=protocol, metadata=metadata, domains=_domains(current, target, protocol))


def _never_lowered(current: Rules, target: Rules) -> Metadata:
    """The older metadata with the table's id and the marks of today."""
    now, then = current.metadata, target.metadata
    highest = max(HIGHEST_COLUMN_ID.of(now.configuration), HIGHEST_COLUMN_ID.of(then.configuration))
    configuration = dict(then.configuration) | ({HIGHEST_COLUMN_ID.key: str(highest)} if highest else {})
    old = parse_schema(then.schema_string)
    schema = _with_newest_marks(old, parse_schema(now.schema_string)) if _counts(current) and _counts(target) else old
    text = then.schema_string if schema == old else schema_to_json(schema)
    return replace(then, id=now.id, schema_string=text, configuration=configuration)


def _counts(rules: Rules) -> bool:
    return "identityColumns" in supported_features(rules.protocol)


def _with_newest_marks(old: StructType, now: StructType) -> StructType:
    """The older schema, in which no identity column gives a value again that it has given since."""
    given = {_name_in_files(f): c for f in now for c in identity_columns(StructType((f,)))}
    marks = {}
    for field in old:
        for column in identity_columns(StructType((field,))):
            both = (column, given.get(_name_in_files(field), column))
            known = [one.high_water_mark for one in both if one.high_water_mark is not None]
            if known:
                marks[column.name] = max(known) if column.step > 0 else min(known)
    return with_marks(old, marks)


def _name_in_files(field: StructField) -> str:
    """What a column is known by, whatever it is called: its own name where columns were not mapped yet."""
    return str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _timed(current: Rules, protocol: Protocol, metadata: Metadata) -> Metadata:
    """The metadata, in which commits carry their time since when they do so without a gap.

    Where they begin to with this commit, the commit itself says so.
    """
    feature = "inCommitTimestamp"
    if not (is_in_force(feature, protocol, metadata) and is_in_force(feature, current.protocol, current.metadata)):
        return metadata
    since = (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP)
    kept = {key: text for key, text in current.metadata.configuration.items() if key in since}
    others = {key: text for key, text in metadata.configuration.items() if key not in since}
    return replace(metadata, configuration=others | kept)


def _domains(current: Rules, target: Rules, protocol: Protocol) -> tuple[DomainMetadata, ...]:
    """Clustering as it was; a table that was not clustered has no clustering columns, as delta-spark says it."""
    if "clustering" not in supported_features(protocol):
        return ()
    then = clustering_columns(target.domains) if "clustering" in supported_features(target.protocol) else ()
    if then == clustering_columns(current.domains):
        return ()
    return (
        target.domains[CLUSTERING_DOMAIN]
        if then
        else DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=_UNCLUSTERED, removed=False),
    )
