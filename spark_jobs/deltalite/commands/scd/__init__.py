"""The SCD operation: keeps the newest row (type 1) or the history (type 2) of each key.

`jobs` calls `scd`. Begin with `command.py`.
"""

from deltalite.commands.scd.command import scd

__all__ = ["scd"]
