"""Changes of single rows: the rows of touched files, the action on each row, and the rules for changed rows.

The packages `merge` and `scd` call it, and so do most `commands` that change rows.
Begin with `row_actions.py`, then `touched_rows.py`.
"""
