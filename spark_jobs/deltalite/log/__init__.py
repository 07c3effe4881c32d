"""The log of a table: its files, the state that they make, and its history.

Layers from `snapshot` upwards call it; it knows neither Spark nor commits in progress.
Begin with `segment.py` (which files make a version), then `state.py` and `replay.py`.
"""
