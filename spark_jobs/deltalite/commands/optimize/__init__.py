"""The optimize operation: moves rows into files of the target size, or clusters them, without a change of a row.

`jobs` and `maintain` call `optimize`, and the drop of a table feature calls `rewrite_files`. Begin with `command.py`,
then `table_plan.py`. Another package, `upkeep`, plans the bins.
"""

from deltalite.commands.optimize.command import optimize

__all__ = ["optimize"]
