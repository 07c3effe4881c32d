"""Partition values as a struct (`partitionValues_parsed`): typed columns in addition to the texts of the log.

Each distinct text of a chunk is parsed once. The struct's fields are the partition columns by their physical names, in
the order of the metadata. A text that is not a valid value becomes null in the struct, so that it does not prevent all
checkpoints of a table. The checkpoint still holds the text. Protocol: Checkpoints (`partitionValues_parsed`), Partition
Value Serialization.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import CorruptLogError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import partition_scalar, partition_text
from deltalite.protocol.schema import DataType


class PartitionStruct:
    """The struct of a partitioned table's partition values: its Arrow `type`, and `parse`.

    `columns` contains the physical name, the key of the value in the log, and the type of each partition column.
    """

    def __init__(self, table_schema: TableSchema) -> None:
        types_by_name = {field.name: field.type for field in table_schema.physical}
        self.columns: list[tuple[str, str, DataType]] = [
            (name, key, types_by_name[name]) for name, key in table_schema.partition_keys.items()
        ]
        self.type: pa.StructType = pa.struct([(name, type_to_arrow(data_type)) for name, _, data_type in self.columns])

    def parse(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Convert each map of texts to a struct."""
        return pa.chunked_array([self._parse_chunk(chunk) for chunk in values.chunks], self.type)

    def _parse_chunk(self, values: pa.MapArray) -> pa.StructArray:
        children = [_parse_texts(_texts(values, key), data_type) for _, key, data_type in self.columns]
        return pa.StructArray.from_arrays(children, fields=list(self.type))


def _texts(values: pa.MapArray, key: str) -> pa.StringArray:
    """Return the texts of one column.

    If a row lacks the key, `partition_text` returns the text of a key that differs only in case.
    """
    texts = pc.map_lookup(values, pa.scalar(key), "first")
    is_missing = pc.is_null(texts)
    rows = values.filter(is_missing).to_pylist()
    individual_texts = [None if row is None else partition_text(dict(row), key) for row in rows]
    return pc.replace_with_mask(texts, is_missing, pa.array(individual_texts, pa.string()))


def _parse_texts(texts: pa.StringArray, data_type: DataType) -> pa.Array:
    """Convert texts to a type; parse each distinct text once."""
    encoded = texts.dictionary_encode()
    distinct_values = [_scalar_or_null(text, data_type) for text in encoded.dictionary.to_pylist()]
    return pa.array(distinct_values, type_to_arrow(data_type)).take(encoded.indices)


def _scalar_or_null(text: str | None, data_type: DataType) -> pa.Scalar:
    try:
        return partition_scalar(text, data_type)
    except CorruptLogError:
        return partition_scalar(None, data_type)
