"""The shared steps of delete, update and merge: plan the touched files, write them, commit, and report.

The commands `delete`, `update`, `merge` and `scd` call this package.
Begin with `execute.py`, then `plan.py`.
"""
