"""Rows of a snapshot: a DataFrame over the data files that the log names, with deletion vectors applied.

The packages for row changes, layouts and readers call it, and so do `commands`.
Begin with `frame.py`, then `relation_files.py`; `native_relation.py` holds the use of Spark's internals.
"""
