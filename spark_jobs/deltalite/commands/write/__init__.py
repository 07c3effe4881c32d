"""The write operation: the rows of a query become a new version of the table.

`jobs` calls `write`, and the first run of a merge does.
Begin with `command.py`: it shows the order of steps that every operation follows.
"""

from deltalite.commands.write.command import write

__all__ = ["write"]
