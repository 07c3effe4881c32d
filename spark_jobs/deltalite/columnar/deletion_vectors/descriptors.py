"""The descriptors of deletion vectors in the log.

A descriptor contains its vector, or names the vector's file by a uuid (a file of the table) or by an absolute path.
Protocol: Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from deltalite.errors import CorruptDataFileError
from deltalite.protocol import z85
from deltalite.protocol.paths import decode_path, is_absolute

# In a file, a field of four bytes stands before each vector and holds the size of the vector. Another field of four
# bytes stands after the vector and holds its CRC-32. The vector with both fields is a frame.
FRAME_FIELD_BYTES: Final = 4
_UUID_CHARACTERS: Final = 20
LOG_REMEDY: Final = "Repair the log with the engine that wrote it, or run RESTORE to an earlier version."


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorDescriptor:
    """A checked descriptor.

    - `file`: the name of the vector's file, relative to the table's root, or absolute; None if the vector is inline.
    - `offset`: the position of the frame in this file; 0 if the vector is inline.
    - `size_bytes`: the size of the vector, without the two fields of the frame.
    - `cardinality`: the number of positions in the vector.
    - `text`: the field `pathOrInlineDv` of the descriptor.
    - `location`: the text that follows "The deletion vector" in an error message.
    """

    file: str | None
    offset: int
    size_bytes: int
    cardinality: int
    text: str
    location: str

    @property
    def end(self) -> int:
        """The position in the file after the frame."""
        return self.offset + FRAME_FIELD_BYTES + self.size_bytes + FRAME_FIELD_BYTES


def parse_descriptor(descriptor: Mapping[str, Any], root: str) -> VectorDescriptor:
    """Check the `deletionVector` of an `add` action of the table at `root`.

    Raises:
        CorruptDataFileError: the descriptor is invalid.
    """
    file = file_name(descriptor)
    location = f"in the log of the table {root}" if file is None else f"of '{file}' of the table {root}"
    cardinality, size_bytes = _count(descriptor, "cardinality", location), _count(descriptor, "sizeInBytes", location)
    offset = 0
    if file is not None:
        offset = _offset(descriptor, location)
        location = f"at byte {offset} {location}"
    return VectorDescriptor(
        file=file,
        offset=offset,
        size_bytes=size_bytes,
        cardinality=cardinality,
        text=descriptor["pathOrInlineDv"],
        location=location,
    )


def file_name(descriptor: Mapping[str, Any]) -> str | None:
    """Return the decoded name of the vector's file: relative to the table's root, or absolute. None if inline.

    Raises:
        CorruptDataFileError: the descriptor is invalid.
    """
    storage_type, text = descriptor.get("storageType"), descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        raise _descriptor_error(descriptor, "has no pathOrInlineDv")
    match storage_type:
        case "i":
            return None
        case "u":
            prefix, encoded_uuid = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            try:
                uuid = UUID(bytes=z85.decode(encoded_uuid))
            except ValueError as error:
                raise _descriptor_error(descriptor, f"has no uuid in Z85: {error}") from error
            return f"{prefix}/deletion_vector_{uuid}.bin" if prefix else f"deletion_vector_{uuid}.bin"
        case "p":
            path = decode_path(text)
            if not is_absolute(path):
                raise _descriptor_error(descriptor, "has storage type 'p', but its path is not absolute")
            return path
        case _:
            raise _descriptor_error(descriptor, "has a storage type other than 'u', 'i' and 'p'")


def _offset(descriptor: Mapping[str, Any], location: str) -> int:
    """Return the offset of the vector. A missing offset means 1, the first vector: byte 0 is the file's version."""
    offset = descriptor.get("offset")
    if offset is None:
        return 1
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 1:
        raise CorruptDataFileError(
            f"The deletion vector {location} has the offset {offset!r}, but vectors begin at byte 1.",
            remedy=LOG_REMEDY,
        )
    return offset


def _count(descriptor: Mapping[str, Any], field: str, location: str) -> int:
    number = descriptor.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise CorruptDataFileError(
            f"The deletion vector {location} has the {field} {number!r}, which is not a count.", remedy=LOG_REMEDY
        )
    return number


def _descriptor_error(descriptor: Mapping[str, Any], problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {dict(descriptor)!r:.300} {problem}.", remedy=LOG_REMEDY)
