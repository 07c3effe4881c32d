"""The optimize operation: moves rows into files of the target size, or clusters them, without a change of a row.

`jobs` calls `optimize`. Begin with `command.py`, then `table_plan.py`. The bins come from `upkeep/optimize_plan.py`.
"""

from deltalite.commands.optimize.command import optimize

__all__ = ["optimize"]
