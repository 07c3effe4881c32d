"""Replay and checkpoints in Spark, for tables with too many files for the memory of one process.

The readers call the replay, and `commands.checkpoint` the checkpoint.
Begin with `distributed_replay.py`, which gives the same files as `deltalite.log.replay`.
"""
