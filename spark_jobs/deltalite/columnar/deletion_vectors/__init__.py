"""Deletion vectors: reading, writing and their encoding as roaring bitmaps.

`columnar.reader`, `txn`, `upkeep`, `inspection`, `spark` and `commands` call it.
Begin with `reading.py`, or with `files.py` for writing.
"""
