"""Delta tables in a PySpark job: `import deltalite.spark as delta; delta.read(spark, "/lake/orders")`."""

from deltalite.spark.read import read

__all__ = ["read"]
