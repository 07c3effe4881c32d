"""The rows of a merge: its clauses, the matches of source rows and target rows, and the result rows.

`commands.merge` and `commands.scd` call it.
Begin with `matching.py`, then `result_rows.py`.
"""
