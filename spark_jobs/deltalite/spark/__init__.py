"""Delta tables in a PySpark job: `import deltalite.spark as delta; delta.read(spark, "/lake/orders")`."""

from deltalite.spark.changes import changes
from deltalite.spark.read import files, read

__all__ = ["changes", "files", "read"]
