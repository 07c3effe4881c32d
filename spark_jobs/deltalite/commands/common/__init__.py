"""The steps that the operations share: the new plan after a conflict, the run's identity, the commit and the result.

Each operation in `commands` calls this package, except the generation of manifests.
Begin with `committing.py` (the last step of every operation that commits) and `replanning.py` (the next attempt after a
conflict).
"""
