"""Predicates, statistics and Parquet files with Arrow: data skipping and the reader without Spark.

`snapshot` and the layers above call it. The package does not need Spark.
Begin with `predicate.py` and `skipping.py`, or with `reader.py` for reading rows.
"""
