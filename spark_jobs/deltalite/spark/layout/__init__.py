"""The arrangement of rows in files: one bin of files for each output file, and the Z curve over several columns.

`commands.optimize` calls it.
Begin with `rearranging.py`.
"""
