"""The arrangement of rows in files: bins of files, and the order of rows on a Z or Hilbert curve.

`commands.optimize` calls it.
Begin with `rearranging.py`.
"""
