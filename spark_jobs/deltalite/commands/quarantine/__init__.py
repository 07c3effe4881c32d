"""The quarantine table: the records and rows that a run leaves out of its target, each with a reason.

`copy` calls `QuarantineTable`. Begin with `table.py` (the commit that replaces the rows of a run), then `layout.py`.
"""

from deltalite.commands.quarantine.table import QuarantineTable

__all__ = ["QuarantineTable"]
