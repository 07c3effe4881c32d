"""SQL text as Spark columns and as predicate trees, resolved and checked before a row is read.

The packages for scans, writes and row changes call it, and so do `commands`, for conditions.
Begin with `sql.py`, then `predicates.py`; `catalyst.py` reads the plans that Spark makes.
"""
