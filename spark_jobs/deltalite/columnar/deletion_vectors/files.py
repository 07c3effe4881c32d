"""The writer of deletion vector files: many vectors in one file, each with its size and checksum.

The file has a unique name in the table's folder, and is complete or absent. No version uses the file before the commit
for which it was written. Protocol: Deletion Vectors; Deletion Vector File Storage Format.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltalite.columnar.deletion_vectors.descriptors import FRAME_FIELD_BYTES
from deltalite.columnar.deletion_vectors.reading import FILE_VERSION
from deltalite.columnar.deletion_vectors.roaring_encoding import encode
from deltalite.protocol import z85
from deltalite.storage.log_store import LogStore


def write_vectors(store: LogStore, position_arrays: Sequence[pa.Int64Array]) -> list[dict[str, Any]]:
    """Write one file with a vector for each array of strictly increasing positions.

    Returns the descriptors of the vectors, in the same order.

    Raises:
        StorageError, StoragePermissionError: the file could not be written.
    """
    file_id = uuid.uuid4()
    content, descriptors = bytearray([FILE_VERSION]), []
    for positions in position_arrays:
        data = encode(positions)
        descriptors.append(
            {
                "storageType": "u",
                "pathOrInlineDv": z85.encode(file_id.bytes),
                "offset": len(content),
                "sizeInBytes": len(data),
                "cardinality": len(positions),
            }
        )
        content += (
            len(data).to_bytes(FRAME_FIELD_BYTES, "big") + data + zlib.crc32(data).to_bytes(FRAME_FIELD_BYTES, "big")
        )
    store.write_if_absent(f"deletion_vector_{file_id}.bin", bytes(content))
    return descriptors
