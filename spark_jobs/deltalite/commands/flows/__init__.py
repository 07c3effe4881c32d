"""Incremental sources: which versions an attempt loads, and how the commit records them.

`write`, `row_changes`, `merge` and `scd` call this package.
Begin with `ranges.py` (the decision, without I/O), then `loads.py`.
"""
