"""Variants: whether writers may shred them. Protocol: Variant Shredding."""

from __future__ import annotations

from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.properties import ENABLE_VARIANT_SHREDDING

_FEATURES = frozenset({"variantShredding", "variantShredding-preview"})


def may_shred(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers may store paths of variants as typed columns."""
    return bool(_FEATURES & supported_features(protocol)) and ENABLE_VARIANT_SHREDDING.of(metadata.configuration)
