"""From Airflow's assets to OpenLineage's datasets.

An asset whose URI is an address of storage is named as a table there would be, so that the asset of a table and the
table are one dataset. Any other is left to the converter that the provider of its scheme has registered. This provider
registers none: the schemes of storage belong to the providers of these storages, and two converters of one scheme
would depend on which is loaded last.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.lineage.edges import Edge
from airflow_provider_deltalite.lineage.facets import plain_dataset
from airflow_provider_deltalite.lineage.naming import DatasetName, dataset_name
from deltalite.errors import InvalidTableAddressError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Asset

_STORAGE = frozenset({"file", "s3", "s3a", "s3n", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "wasb", "wasbs"})


def asset_dataset(asset: Asset, named: Container[DatasetName]) -> Any:
    """The dataset of an asset; None where it is `named` already, or where nobody knows what it is."""
    name = asset_name(asset.uri)
    if name is None:
        from airflow.providers.common.compat.openlineage.utils.utils import translate_airflow_asset

        return translate_airflow_asset(asset, None)
    return None if name in named else plain_dataset(Edge(name=name, address=asset.uri))


def asset_name(uri: str) -> DatasetName | None:
    """The name of what lies at the URI of an asset, None where it is no address of storage."""
    scheme, colon, _ = uri.partition(":")
    if not uri.startswith("/") and (not colon or scheme.lower() not in _STORAGE):
        return None
    try:
        return dataset_name(uri)
    except InvalidTableAddressError:
        return None
