"""The log of a table: its files, the table state that they define, and the table's history.

Layers from `snapshot` upwards call this package; it knows neither Spark nor commits in progress.
Begin with `segment.py` (the files of a version), then `state.py` and `replay.py`.
"""
