"""The due maintenance of many tables in one Spark application, with bounded parallelism and a budget.

`jobs` calls `maintain`. Begin with `command.py`, then `one_table.py`.
"""

from deltalite.commands.maintain.command import maintain

__all__ = ["maintain"]
