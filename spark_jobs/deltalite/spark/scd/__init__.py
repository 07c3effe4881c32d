"""The rows of an SCD table: the newest row of each key (type 1), or its history (type 2).

`commands.scd` calls it.
Begin with `layout.py` (the columns), then `events.py`, and `history.py` for type 2.
"""
