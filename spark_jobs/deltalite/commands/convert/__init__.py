"""The convert operation: turns a folder of Parquet files into a Delta table, in place and in one commit.

`jobs` calls `convert`. Begin with `command.py`.
"""

from deltalite.commands.convert.command import convert

__all__ = ["convert"]
