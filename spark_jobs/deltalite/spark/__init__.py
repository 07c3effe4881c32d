"""Delta tables in a PySpark job: `import deltalite.spark as delta; delta.read(spark, "/lake/orders")`.

Users import the names below; `commands` and `jobs` import the modules. No other package imports pyspark.
Begin with `read.py` and `scan.py` for reading, `staging.py` for writing, `hadoop_store.py` for storage.
"""

from deltalite.spark.changes import changes
from deltalite.spark.read import files, read

__all__ = ["changes", "files", "read"]
