"""The shared steps of delete, update and merge: plan the touched files, write them, commit, and report.

The operations on rows call it.
Begin with `execute.py`, then `plan.py`.
"""
