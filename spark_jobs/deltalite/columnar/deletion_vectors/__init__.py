"""Deletion vectors: reading, writing and their encoding as roaring bitmaps.

`columnar.reader`, `upkeep`, `spark` and `commands` call it.
Begin with `reading.py`, or with `files.py` for writing.
"""
