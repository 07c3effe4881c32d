"""Delta tables in a PySpark job: `import deltalite.spark as delta; delta.read(spark, "/lake/orders")`.

Users import the names below; `commands` and `jobs` import the modules. No other package imports pyspark at run time.
Begin with the package `reader` for reading, `write` for writing, `hadoop` for storage. `ROOMS` in
`tests/architecture/test_layers.py` has the order in which the packages may import each other.
"""

from deltalite.spark.reader.changes import changes
from deltalite.spark.reader.read import files, read

__all__ = ["changes", "files", "read"]
