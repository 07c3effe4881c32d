"""Delta tables in a PySpark job: `import deltalite.spark as delta; delta.read(spark, "/lake/orders")`.

Users import the names below; `commands` and `jobs` import the modules. No other package imports pyspark at run time.
Begin with the package `reader` for reading, `write` for writing, `hadoop` for storage. `ROOMS` in
`tests/architecture/test_layers.py` has the order in which the packages may import each other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalite.spark.reader.changes import changes
    from deltalite.spark.reader.read import files, read

__all__ = ["changes", "files", "read"]

_MODULES = {
    "changes": "deltalite.spark.reader.changes",
    "files": "deltalite.spark.reader.read",
    "read": "deltalite.spark.reader.read",
}


def __getattr__(name: str) -> Any:
    """Import the reader on first use: a job opens its Spark session before it imports most of the library."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'deltalite.spark' has no attribute {name!r}")
