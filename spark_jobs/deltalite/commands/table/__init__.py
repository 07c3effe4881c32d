"""The table operation: creates the table that a task declares, or alters an existing table to match the declaration.

`jobs` calls `define_table`. Begin with `command.py`.
"""

from deltalite.commands.table.command import define_table

__all__ = ["define_table"]
