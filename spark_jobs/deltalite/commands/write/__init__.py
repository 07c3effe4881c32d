"""The write operation: the rows of a query become a new version of the table.

`jobs` calls `write`. So do a copy, and a merge or a history that creates its table.
Begin with `command.py`: it shows the order of steps that every operation follows. Then read `attempt.py`.
"""

from deltalite.commands.write.attempt import ConvertedRows
from deltalite.commands.write.command import write

__all__ = ["ConvertedRows", "write"]
