"""The merge operation: source rows update, delete and insert rows of the table.

`jobs` calls `merge`. Begin with `command.py`.
"""

from deltalite.commands.merge.command import merge

__all__ = ["merge"]
