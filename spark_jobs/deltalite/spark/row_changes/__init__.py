"""Changes of single rows: the rows of touched files, the action on each row, and the rules for changed rows.

`merge` calls it, and `commands` for update, delete and replacing writes.
Begin with `row_actions.py`, then `touched_rows.py`.
"""
