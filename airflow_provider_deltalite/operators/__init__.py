"""The operators: each declares one operation, and one base class submits all of them.

Users' DAGs import `delta.py` only; the other modules are private.
Begin with `_submit.py` (the steps of every task), then `_commit.py` and `_write.py`.
"""
