"""Upkeep after a commit: checkpoints, checksums, cleanup, compactions, manifests; also the plan of a vacuum.

`commands`, `spark` and `cli` call this package. `inspection` uses its file counts and its prediction of an optimize.
Begin with `post_commit.py` (the upkeep that a commit makes due), or with `vacuum.py`.
"""
