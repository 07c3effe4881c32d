"""The table operation: creates a table as a task declares it, or alters it until it is as declared.

`jobs` calls `define_table`. Begin with `command.py`.
"""

from deltalite.commands.table.command import define_table

__all__ = ["define_table"]
