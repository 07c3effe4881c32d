"""The readers: a table, its change data feed, its files, and the sources of a task as DataFrames.

Users call them through `deltalite.spark`; `commands` call `sources.py`.
Begin with `read.py`.
"""
