"""The write operation: the rows of a query become a new version of the table.

`jobs`, `copy` and `quarantine` call `write`. A merge and an SCD run call `write` to create the table.
Begin with `command.py`: it shows the order of steps that every operation follows. Then read `attempt.py`.
"""

from deltalite.commands.write.attempt import ConvertedRows
from deltalite.commands.write.command import write

__all__ = ["ConvertedRows", "write"]
