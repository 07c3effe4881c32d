"""The reader of data files without Spark: batches of rows, without the rows that a vector or a key deletes.

`table`, `change_feed` and the layers above call it.
Begin with `stream.py`, then `plan.py` and `one_file.py`.
"""
