"""The operations on a table. Each one plans, writes files and commits exactly once per run.

Only `jobs` calls this package, with a request. pyspark is imported for types only.
Begin with `write.py` (the order of steps), then read `committing.py` and `replanning.py`, which all operations share.
"""
