"""The readers: a table, its change data feed, its files, and the sources of a task as DataFrames.

Users call `deltalite.spark`, which exports `read`, `files` and `changes`. `commands` call `sources.py`.
Begin with `read.py`.
"""
