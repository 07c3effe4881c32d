"""The copy operation: appends the rows of files that no earlier commit has loaded.

`jobs` calls `copy`. Begin with `command.py`, then `plan.py` (the choice of files, and the record).
"""

from deltalite.commands.copy.command import copy

__all__ = ["copy"]
