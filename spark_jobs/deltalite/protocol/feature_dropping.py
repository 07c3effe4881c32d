"""The protocol and metadata of a table that drops a table feature.

Commits before the drop still use the feature. The table therefore gets the feature `checkpointProtection`: clients that
do not support the dropped feature read later versions from protected checkpoints. The commit that drops the feature
records the version before which checkpoints are protected. Protocol: Checkpoint Protection (RFC), Type Widening;
delta-spark: AlterTableDropFeatureDeltaCommand, TypeWideningPreDowngradeCommand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from deltalite.errors import InvalidRequestError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.feature_enabling import protocol_with
from deltalite.protocol.features import FEATURES, supported_features
from deltalite.protocol.properties import ENABLE_TYPE_WIDENING, FEATURE_PREFIX
from deltalite.protocol.type_widening import without_type_changes

_PROPERTY_OF_FEATURE = dict.fromkeys(("typeWidening", "typeWidening-preview"), ENABLE_TYPE_WIDENING.key)


def droppable_features(names: Collection[str]) -> frozenset[str]:
    """Return the features with these names, spelled as in the protocol. `names` are case-insensitive.

    Raises:
        InvalidRequestError: this release does not know a feature, or cannot drop it.
    """
    features_by_lower_name = {name.lower(): name for name in FEATURES}
    features = frozenset(features_by_lower_name.get(name.lower(), name) for name in names)
    undroppable = next((name for name in sorted(features) if name not in _PROPERTY_OF_FEATURE), None)
    if undroppable is not None:
        raise InvalidRequestError(
            f"drop_features names {undroppable}, which this release cannot drop.",
            remedy=f"This release drops {' and '.join(_PROPERTY_OF_FEATURE)}. delta-spark drops other features with "
            "ALTER TABLE … DROP FEATURE.",
        )
    return features


def enabling_properties(features: Collection[str]) -> frozenset[str]:
    """Return the properties that enable one of the features, or add it to the protocol."""
    return frozenset(
        {_PROPERTY_OF_FEATURE[name] for name in features} | {f"{FEATURE_PREFIX}{name}" for name in features}
    )


def without_features(protocol: Protocol, metadata: Metadata, features: Collection[str]) -> tuple[Protocol, Metadata]:
    """Return the protocol and the metadata without the features, and without the recorded type changes.

    The protocol gets the feature `checkpointProtection`. The caller must ensure that no data file needs the features.
    """
    kept_features = supported_features(protocol).difference(features) | {"checkpointProtection"}
    removed_keys = enabling_properties(features)
    kept_properties = {key: text for key, text in metadata.configuration.items() if key not in removed_keys}
    schema_string = without_type_changes(metadata.schema_string)
    return (
        protocol_with(protocol, kept_features),
        replace(metadata, schema_string=schema_string, configuration=kept_properties),
    )
