"""Data skipping: the selection of files by partition values and statistics.

`columnar.reader`, `txn`, `upkeep` and the layers above call it.
Begin with `files.py`, then `file_facts.py` (one file) and `stats_columns.py` (many files at once).
"""
