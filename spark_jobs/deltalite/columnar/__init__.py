"""Predicates, statistics and Parquet files with Arrow: data skipping and the reader without Spark.

`txn`, `upkeep`, `change_feed` and the layers above call it.
Begin with `skipping/files.py`, or with `reader/stream.py` for reading rows.
"""
