"""Differences between two versions of a table, and faults of a table, as values.

`cli` shows them, and a restore uses the search for missing files. The package does not need Spark.
Begin with `verify.py` (the steps of a verification) and `diff.py`.
"""
