"""Predicates, statistics and Parquet files in Arrow's columns: data skipping and the Python reader.

`snapshot` and the layers above call it; it knows no Spark.
Begin with `predicate.py` and `skipping.py`, or with `reader.py` for reading rows.
"""
