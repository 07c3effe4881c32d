"""Changes of single rows: the rows of touched files, what happens to each, and the rules for rows that change.

`merge` calls it, and `commands` for update, delete and replacing writes.
Begin with `row_actions.py`, then `touched_rows.py`.
"""
