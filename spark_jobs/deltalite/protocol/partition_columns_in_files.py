"""Partition columns in data files: whether writers add them to the other columns.

Readers always take partition values from the log. Protocol: Iceberg Compatibility V1 and V2, Materialize Partition
Columns (RFC); delta-spark: TransactionalWrite.
"""

from __future__ import annotations

from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.iceberg_compat import active_iceberg_compat
from deltalite.protocol.properties import WRITE_PARTITION_COLUMNS_TO_PARQUET

FEATURE = "materializePartitionColumns"


def materializes_partition_columns(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new data files have the partition columns, because of a table feature or a property."""
    return (
        FEATURE in supported_features(protocol)
        or active_iceberg_compat(protocol, metadata) is not None
        or WRITE_PARTITION_COLUMNS_TO_PARQUET.of(metadata.configuration)
    )
