"""Incremental sources: which versions an attempt loads, and how the commit records them.

`write` and `merge` call this package. Begin with `ranges.py` (the decision, without I/O), then `loads.py`.
"""
