"""Audits on Spark: their SQL is resolved before rows are written, and their values are measured on rows.

The commands that change rows and the check command call this package. Begin with `resolving.py`.
"""
