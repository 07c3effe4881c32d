"""Delta Lake for Python: `DeltaTable` reads a table without Spark, `deltalite.spark` reads it with Spark.

Users import `DeltaTable` from here. The code of the library imports from the modules and subpackages.
Begin with `table.py`, then `snapshot.py`; ARCHITECTURE.md has the layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalite.table import DeltaTable

__all__ = ["DeltaTable"]


def __getattr__(name: str) -> Any:
    """Import `DeltaTable` on first use: a DAG that only imports `deltalite.errors` must not load pyarrow."""
    if name == "DeltaTable":
        from deltalite.table import DeltaTable  # noqa: PLC0415  see above

        return DeltaTable
    raise AttributeError(f"module 'deltalite' has no attribute {name!r}")
