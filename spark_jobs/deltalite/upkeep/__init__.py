"""What follows a commit: checkpoints, checksums, cleanup, compactions, manifests; and the plan of a vacuum.

`commands`, `spark` and `cli` call it, and `inspection` its checksums.
Begin with `post_commit.py` (what is due when), or with `vacuum.py`.
"""
