"""The operators: each declares one operation, and one base class submits all of them.

Users' DAGs import `delta.py` only; the other modules are private.
Begin with `_submit.py` (what every task does), then `_commit.py` and `_write.py`.
"""
