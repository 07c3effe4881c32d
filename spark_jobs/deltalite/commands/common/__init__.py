"""The steps that the operations share: the new plan after a conflict, the run's identity, the commit and the result.

All modules and packages of operations in `commands` call this package.
Begin with `committing.py` (the last step of every operation) and `replanning.py` (the next attempt after a conflict).
"""
