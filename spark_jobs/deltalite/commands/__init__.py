"""The operations on a table: each plans, writes files and commits, exactly once for a run.

Only `jobs` calls it, with a request; pyspark is imported for types only.
Begin with `write.py` (the order of steps), then `committing.py` and `replanning.py`, which all share.
"""
