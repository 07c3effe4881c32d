"""Conversion of Airflow assets to OpenLineage datasets.

If the URI of an asset is a storage address, the dataset gets the name of a table at that address. So a table and its
asset are one dataset. For any other URI, the converter of the provider that owns the scheme applies. This provider
registers no converter: the storage schemes belong to other providers, and a second converter for a scheme replaces the
first.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.assets._uri import TABLE_SCHEMES
from airflow_provider_deltalite.lineage.edges import Edge
from airflow_provider_deltalite.lineage.facets import plain_dataset
from airflow_provider_deltalite.lineage.naming import DatasetName, dataset_name
from deltalite.errors import InvalidTableAddressError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Asset


def asset_dataset(asset: Asset, known_names: Container[DatasetName]) -> Any:
    """Return the dataset of an asset; None if `known_names` contains its name, or if no converter knows the URI."""
    name = asset_name(asset.uri)
    if name is None:
        from airflow.providers.common.compat.openlineage.utils.utils import translate_airflow_asset

        return translate_airflow_asset(asset, None)
    return None if name in known_names else plain_dataset(Edge(name=name, address=asset.uri))


def asset_name(uri: str) -> DatasetName | None:
    """Return the dataset name for the URI of an asset; None if the URI is not a storage address."""
    scheme, colon, _ = uri.partition(":")
    if not uri.startswith("/") and (not colon or scheme.lower() not in TABLE_SCHEMES):
        return None
    try:
        return dataset_name(uri)
    except InvalidTableAddressError:
        return None
