"""The shared steps of all operations: the order of an attempt, the run's identity, the commit, and the result.

The packages of the operations call it.
Begin with `committing.py` (the last step of every operation) and `replanning.py` (the next attempt after a conflict).
"""
