"""The write operation: the rows of a query become a new version of the table.

`jobs` calls `write`, and so does a merge that creates its table.
Begin with `command.py`: it shows the order of steps that every operation follows.
"""

from deltalite.commands.write.command import write

__all__ = ["write"]
