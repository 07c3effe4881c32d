"""The quarantine table: the records and rows that a run leaves out of its target, each with a reason.

Writes, copies, merges and SCD runs use `Quarantine`. Begin with `table.py` (the commit that replaces the rows of a
run), then `quarantine.py` (the use of the table by a command) and `layout.py`.
"""

from deltalite.commands.quarantine.quarantine import Quarantine, check_separate, open_quarantine
from deltalite.commands.quarantine.table import TableWriter

__all__ = ["Quarantine", "TableWriter", "check_separate", "open_quarantine"]
