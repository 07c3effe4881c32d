"""A store with a file of vectors, and the descriptor of a vector in it."""

from __future__ import annotations

from uuid import UUID

from deltalite.storage.memory import MemoryLogStore
from tests.support.vectors import vector, z85

ID = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
NAME = f"deletion_vector_{ID}.bin"
ROWS = [3, 4, 7, 11, 18, 29]


def store_with(content, name=NAME):
    """A store with one file."""
    store = MemoryLogStore()
    store.write(name, content)
    return store


def descriptor(**changes):
    """The descriptor of a vector of `ROWS`, with changed fields; `absent` leaves a field out."""
    defaults = {
        "storageType": "u",
        "pathOrInlineDv": z85(ID.bytes),
        "offset": 1,
        "sizeInBytes": len(vector(ROWS)),
        "cardinality": len(ROWS),
    }
    return {key: value for key, value in (defaults | changes).items() if value != "absent"}
